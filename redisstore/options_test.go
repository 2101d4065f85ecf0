package redisstore

import (
	"strings"
	"testing"
	"time"
)

// nowhere is a Conn that is never called.
type nowhere struct{ Conn }

func (nowhere) Cluster() bool { return false }

func TestWrongOptions(t *testing.T) {
	for _, test := range []struct {
		opts Options
		want string
	}{
		{Options{Prefix: "a{b"}, "prefix"}, {Options{Prefix: "a\nb"}, "prefix"}, {Options{Prefix: "a b"}, "prefix"},
		{Options{Grace: -time.Second}, "grace"},
	} {
		if _, err := NewWithConn(nowhere{}, test.opts); err == nil || !strings.HasPrefix(err.Error(), "redisstore: "+test.want) {
			t.Errorf("%+v: got error %v", test.opts, err)
		}
	}
	if _, err := NewWithConn(nil, Options{}); err == nil {
		t.Error("got no error without a connection")
	}
	if _, err := New(nil, Options{}); err == nil {
		t.Error("got no error without a client")
	}
}
