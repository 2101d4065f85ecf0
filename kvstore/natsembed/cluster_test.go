package natsembed

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/slidegate/slidegate/internal/testkit"
)

// patience is how long a cluster may take to agree: elections take up to nine seconds.
const patience = 60 * time.Second

// freeAddresses returns unused addresses on loopback.
func freeAddresses(t *testing.T, n int) (addresses []string) {
	t.Helper()
	for range n {
		addresses = append(addresses, testkit.FreeAddress(t))
	}
	return addresses
}

// start starts a server that ends with the test.
func start(t *testing.T, opts Options) *Server {
	t.Helper()
	s, err := Start(opts)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	return s
}

func jetStream(t *testing.T, s *Server) jetstream.JetStream {
	t.Helper()
	conn, err := s.Connect(nats.Timeout(5 * time.Second))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(conn.Close)
	js, err := jetstream.New(conn)
	if err != nil {
		t.Fatal(err)
	}
	return js
}

// eventually calls try until it returns no error.
func eventually[T any](t *testing.T, what string, try func(ctx context.Context) (T, error)) T {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	ticks := time.NewTicker(50 * time.Millisecond)
	defer ticks.Stop()
	for ; ; <-ticks.C {
		once, done := context.WithTimeout(ctx, 2*time.Second)
		answer, err := try(once)
		done()
		if err == nil {
			return answer
		}
		if ctx.Err() != nil {
			t.Fatalf("%s: %v", what, err)
		}
	}
}

// bucket opens a bucket of three replicas.
func bucket(t *testing.T, js jetstream.JetStream) jetstream.KeyValue {
	t.Helper()
	return eventually(t, "a bucket", func(ctx context.Context) (jetstream.KeyValue, error) {
		return js.CreateOrUpdateKeyValue(ctx, jetstream.KeyValueConfig{Bucket: "b", Replicas: 3})
	})
}

// A cluster of three servers opens no port for clients, keeps working without one of them, and brings it up to date when it
// returns.
func TestClusterSurvivesLossOfOneServer(t *testing.T) {
	t.Parallel()
	routes := freeAddresses(t, 3)
	options := make([]Options, 3)
	servers := make([]*Server, 3)
	for i := range servers {
		options[i] = Options{Dir: t.TempDir(), Route: routes[i], Cluster: routes, Secret: "$2a$04$like a hash"}
		servers[i] = start(t, options[i])
		if at := servers[i].nats.Addr(); at != nil {
			t.Errorf("the server listens for clients on %v", at)
		}
	}
	kv := bucket(t, jetStream(t, servers[0]))
	put := func(n int) {
		eventually(t, "a write", func(ctx context.Context) (uint64, error) { return kv.Put(ctx, "key", fmt.Append(nil, n)) })
	}
	put(1)
	servers[2].Close()
	put(2)
	again := start(t, options[2])
	if again.Name() != servers[2].Name() {
		t.Errorf("the server's name was %q, and after a restart it is %q", servers[2].Name(), again.Name())
	}
	servers[1].Close() // so that the restarted one is needed for a majority
	put(3)
	kv = bucket(t, jetStream(t, again))
	got := eventually(t, "a read", func(ctx context.Context) (jetstream.KeyValueEntry, error) { return kv.Get(ctx, "key") })
	if string(got.Value()) != "3" {
		t.Errorf("the value is %s, want 3", got.Value())
	}
}

// A server with another secret cannot join the cluster, and logs that.
func TestClusterRejectsOtherSecrets(t *testing.T) {
	t.Parallel()
	routes := freeAddresses(t, 3)
	options := make([]Options, 3)
	for i, secret := range []string{"one", "one", "another"} {
		options[i] = Options{Dir: t.TempDir(), Route: routes[i], Cluster: routes, Secret: secret}
	}
	lines := &lines{}
	options[2].Logger = slog.New(slog.NewTextHandler(lines, nil))
	js := jetStream(t, start(t, options[0]))
	start(t, options[1])
	stranger := start(t, options[2])
	eventually(t, "the stranger's log", func(context.Context) (any, error) {
		if text := lines.String(); !strings.Contains(text, "Authorization Violation") {
			return nil, fmt.Errorf("the log is %q", text)
		}
		return nil, nil
	})
	if n := stranger.nats.NumRoutes(); n != 0 {
		t.Errorf("the server with another secret has %d routes, want none", n)
	}
	stranger.Close()
	options[2].Secret = "one"
	start(t, options[2])
	eventually(t, "a majority of three", func(ctx context.Context) (*jetstream.AccountInfo, error) { return js.AccountInfo(ctx) })
}

// lines collects a log.
type lines struct {
	mu   sync.Mutex
	text strings.Builder
}

func (l *lines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

func (l *lines) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}
