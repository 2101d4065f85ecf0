package open_test

import (
	"io"
	"net"
	"sync"
	"testing"

	"github.com/slidegate/slidegate/cmd/slidegate/internal/open"
	"github.com/slidegate/slidegate/rule"
	"github.com/slidegate/slidegate/store"
)

// TestSilentServerDelaysNothing: a server that accepts connections and sends nothing delays neither Open nor Close nor a decision.
func TestSilentServerDelaysNothing(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var conns sync.WaitGroup
	conns.Go(func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			conns.Go(func() {
				_, _ = io.Copy(io.Discard, conn)
				conn.Close()
			})
		}
	})
	o, err := open.Open(ctx, "redis://"+listener.Addr().String()+"?write_timeout=200ms", hasty())
	if err != nil {
		t.Fatal(err)
	}
	if d := allow(t, limiter(t, store.In(o.Store, store.FailClosed), "silent")); d.Allowed || d.Flags != rule.FallbackClosed {
		t.Errorf("got %+v, want a refusal by the fallback", d)
	}
	if err := o.Close(); err != nil {
		t.Error(err)
	}
	listener.Close()
	conns.Wait()
}
