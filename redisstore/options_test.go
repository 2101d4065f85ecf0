package redisstore

import (
	"strings"
	"testing"
	"time"
)

// nowhere is a Conn that is never called.
type nowhere struct{ Conn }

func (nowhere) Cluster() bool { return false }

// inCluster is a Conn to a cluster that is never called.
type inCluster struct{ nowhere }

func (inCluster) Cluster() bool { return true }

// A single server is served best by two calls in flight; the nodes of a cluster work at the same time.
func TestCallsInFlight(t *testing.T) {
	for conn, want := range map[Conn]int{nowhere{}: 2, inCluster{}: 0} {
		st, err := NewWithConn(conn, Options{})
		if err != nil {
			t.Fatal(err)
		}
		if got := st.Traits().Calls; got != want {
			t.Errorf("cluster %v: got %d calls, want %d", conn.Cluster(), got, want)
		}
	}
}

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
