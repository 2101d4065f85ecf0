package connlimit

import (
	"bufio"
	"context"
	"io"
	"net"
	"net/http"
	"testing"

	"github.com/slidegate/slidegate/cmd/slidegate/internal/testkit"
)

// Settle waits for a connection whose first request is not answered yet, but not for one that is idle after a response.
func TestSettle(t *testing.T) {
	inner, err := net.Listen("tcp", "127.0.0.1:0")
	testkit.NoError(t, err)
	l := New(inner, Options{Max: 10, MaxPerAddress: 10})
	server := &http.Server{Handler: http.NotFoundHandler(), ConnState: l.ConnState}
	ended := make(chan error, 1)
	go func() { ended <- server.Serve(l) }()
	defer func() {
		server.Close()
		<-ended
	}()
	conn, err := net.Dial("tcp", inner.Addr().String())
	testkit.NoError(t, err)
	defer conn.Close()
	testkit.Eventually(t, "it is accepted", func() bool { return l.Open() == 1 })
	settled := make(chan struct{})
	go func() {
		l.Settle(t.Context())
		close(settled)
	}()
	select {
	case <-settled:
		t.Fatal("Settle did not wait for the first request")
	default:
	}
	_, err = io.WriteString(conn, "GET / HTTP/1.1\r\nHost: localhost\r\n\r\n")
	testkit.NoError(t, err)
	response, err := http.ReadResponse(bufio.NewReader(conn), nil)
	testkit.NoError(t, err)
	response.Body.Close()
	<-settled
	if l.Open() != 1 {
		t.Errorf("got %d open connections, want 1: it is kept alive", l.Open())
	}
	over, cancel := context.WithCancel(t.Context())
	cancel()
	silent, err := net.Dial("tcp", inner.Addr().String())
	testkit.NoError(t, err)
	defer silent.Close()
	testkit.Eventually(t, "another one is accepted", func() bool { return l.Open() == 2 })
	l.Settle(over) // returns
}
