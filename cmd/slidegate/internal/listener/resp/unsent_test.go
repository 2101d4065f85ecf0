package resp_test

import (
	"net"
	"syscall"
	"testing"
	"time"

	"github.com/slidegate/slidegate/cmd/slidegate/internal/gate"
	"github.com/slidegate/slidegate/cmd/slidegate/internal/listener/resp"
	"github.com/slidegate/slidegate/rule"
)

// goneListener accepts connections whose clients are gone when a reply is written.
type goneListener struct{ net.Listener }

func (l goneListener) Accept() (net.Conn, error) {
	conn, err := l.Listener.Accept()
	return goneConn{conn}, err
}

type goneConn struct{ net.Conn }

func (goneConn) Write([]byte) (int, error) { return 0, syscall.EPIPE }

// What was reserved for a client that left before the reply is given back, even if the store fails meanwhile.
func TestUnsentReservationsAreCancelled(t *testing.T) {
	w := newWorld(t, resp.Options{})
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	go func() { w.served <- w.server.Serve(goneListener{listener}) }()
	t.Cleanup(func() { w.shutdown(t) })
	w.store.failSettles.Store(2)
	conn, err := net.Dial("tcp", listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if _, err := conn.Write([]byte(frame("SG.RESERVE", "default", "ann", "4") + frame("SG.ACQUIRE", "slots", "ann", "3"))); err != nil {
		t.Fatal(err)
	}
	_ = conn.SetReadDeadline(time.Now().Add(patience))
	if _, err := conn.Read(make([]byte, 1)); err == nil {
		t.Fatal("got a reply, want the connection closed")
	}
	for policy, want := range map[string][]int64{"default": {10}, "slots": {2, 10}} {
		v, err := w.gate.Do(t.Context(), gate.Peek, gate.Request{Policy: policy, Key: "ann", Cost: 1})
		if err != nil {
			t.Fatal(err)
		}
		got := []int64{v.Decision.Remaining}
		if v.Decision.Answers != nil {
			got = []int64{v.Decision.Answers[0].Remaining, v.Decision.Answers[1].Remaining}
		}
		for i := range want {
			if got[i] != want[i] {
				t.Errorf("%s: got %d left, want %d", policy, got, want)
			}
		}
	}
}

// failsSettle reports whether a settlement must fail.
func (s *countingStore) failsSettle(op rule.Op) bool {
	return op == rule.Settle && s.failSettles.Add(-1) >= 0
}
