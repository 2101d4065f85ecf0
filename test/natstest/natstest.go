// Package natstest starts private NATS servers with JetStream, on free ports of loopback and in temporary folders: one inside the
// test (Start), one in a separate process that can be killed (StartNode), or a cluster of such processes that can be isolated from
// one another (StartCluster).
package natstest

import (
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
)

// Start starts one server that ends with the test, and returns its URL.
func Start(t testing.TB) string {
	t.Helper()
	s, err := server.NewServer(&server.Options{
		Host: "127.0.0.1", Port: server.RANDOM_PORT, JetStream: true, StoreDir: t.TempDir(), NoLog: true, NoSigs: true,
	})
	if err != nil {
		t.Fatal(err)
	}
	go s.Start()
	t.Cleanup(func() {
		s.Shutdown()
		s.WaitForShutdown()
	})
	if !s.ReadyForConnections(30 * time.Second) {
		t.Fatal("the server is not ready")
	}
	return s.ClientURL()
}

// Connect returns a connection to a server, or to the first of several that is reachable, which is closed with the test. It never
// stops trying to reconnect.
func Connect(t testing.TB, url string) *nats.Conn {
	t.Helper()
	conn, err := nats.Connect(url, nats.DontRandomize(), nats.MaxReconnects(-1), nats.ReconnectWait(20*time.Millisecond), nats.ReconnectJitter(0, 0))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(conn.Close)
	return conn
}
