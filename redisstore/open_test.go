package redisstore

import (
	"context"
	"errors"
	"io"
	"net"
	"testing"

	"github.com/slidegate/slidegate/internal/testkit"
)

// TestDialsBelongToTheStore: a dial goes on without the caller that needed it, and ends with the store, as its connection does.
func TestDialsBelongToTheStore(t *testing.T) {
	listener := testkit.Must(net.Listen("tcp", "127.0.0.1:0"))(t)
	defer listener.Close()
	target := testkit.Must(parseURL("redis://" + listener.Addr().String() + "?dial_timeout=30s"))(t)
	life, end := context.WithCancel(t.Context())
	defer end()
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	opts := target.options(life)
	conn, err := opts.DialCtxFn(ended, opts.InitAddress[0], &opts.Dialer, nil)
	if err != nil {
		t.Fatalf("the caller has left: got %v, want a connection", err)
	}
	server := testkit.Must(listener.Accept())(t)
	defer server.Close()
	end()
	if _, err := io.ReadAll(server); err != nil { // returns when the other end closes the connection
		t.Errorf("got %v, want the end of the connection", err)
	}
	if _, err := conn.Read(make([]byte, 1)); !errors.Is(err, net.ErrClosed) {
		t.Errorf("got %v, want a closed connection", err)
	}
	if _, err := opts.DialCtxFn(t.Context(), opts.InitAddress[0], &opts.Dialer, nil); !errors.Is(err, context.Canceled) {
		t.Errorf("the store is closed: got %v, want the end of the dial", err)
	}
}
