package memcached

import (
	"context"
	"errors"
	"io"
	"net"
	"syscall"
	"testing"

	"github.com/bradfitz/gomemcache/memcache"

	"github.com/slidegate/slidegate/storetest"
)

func TestWhatErrorsMean(t *testing.T) {
	for _, c := range []struct {
		err  error
		want string
	}{
		{&memcache.ConnectTimeoutError{Addr: &net.TCPAddr{}}, "down undone"},
		{&net.OpError{Op: "dial", Err: syscall.ECONNREFUSED}, "down undone"},
		{memcache.ErrNoServers, "down undone"},
		{io.EOF, "busy"},
		{&net.OpError{Op: "read", Err: syscall.ECONNRESET}, "busy"},
		{errors.New(`memcache: unexpected response line from "add": "SERVER_ERROR out of memory storing object\r\n"`), "down undone"},
		{errors.New(`memcache: unexpected response line from "add": "SERVER_ERROR object too large for cache\r\n"`), "undone"},
		{errors.New(`memcache: unexpected response line from "add": "SERVER_ERROR read only\r\n"`), "down undone"},
		{errors.New(`memcache: unexpected response line from "add": "SERVER_ERROR timeout\r\n"`), "down"},
		{errors.New(`memcache: unexpected line in get response: "ERROR Too many open connections\r\n"`), "busy undone"},
		{errors.New(`memcache: unexpected response line from "cas": "CLIENT_ERROR unauthenticated\r\n"`), "down undone refused"},
		{context.DeadlineExceeded, ""},
		{errors.New("memcache: corrupt get result read"), ""},
	} {
		if got := storetest.Marks(fault(c.err)); got != c.want {
			t.Errorf("%v: got %q, want %q", c.err, got, c.want)
		}
	}
}
