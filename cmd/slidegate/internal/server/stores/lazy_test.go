package stores

import (
	"context"
	"errors"
	"net"
	"testing"

	"github.com/slidegate/slidegate/store"
)

// TestLazyStoreFailsEveryRequest: before there is a connection, each request of a batch gets its error.
func TestLazyStoreFailsEveryRequest(t *testing.T) {
	target, err := parseRedis("redis://h")
	if err != nil {
		t.Fatal(err)
	}
	l := &lazyStore{Store: target.offline}
	batch := make([]store.Request, 2)
	if err := l.Apply(context.Background(), batch); !errors.Is(err, ErrDown) || errors.Is(err, store.ErrUnsupported) {
		t.Errorf("the batch: got %v", err)
	}
	for i := range batch {
		if !errors.Is(batch[i].Err, ErrDown) {
			t.Errorf("request %d: got %v", i, batch[i].Err)
		}
	}
	if got := l.Traits(); got.Name != "redis" || got.RoundTrips != 1 || !got.ServerClock {
		t.Errorf("traits before there is a connection: got %+v", got)
	}
}

// TestCloseEndsDialing: closing the store ends an attempt to connect. The address accepts connections, so that it is not the
// address that ends the attempt.
func TestCloseEndsDialing(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	target, err := parseRedis("redis://" + listener.Addr().String() + "?write_timeout=100ms")
	if err != nil {
		t.Fatal(err)
	}
	closed, cancel := context.WithCancel(context.Background())
	cancel()
	var canceled *net.OpError
	if _, err := target.connect(closed); !errors.As(err, &canceled) || canceled.Op != "dial" {
		t.Errorf("dialed after the end: got %v", err)
	}
}
