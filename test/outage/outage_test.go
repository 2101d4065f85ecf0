//go:build unix

package outage_test

import (
	"context"
	"net"
	"net/http"
	"net/http/httptest"
	"syscall"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/rueidis"
	"google.golang.org/grpc"

	"github.com/slidegate/slidegate"
	"github.com/slidegate/slidegate/grpclimit"
	"github.com/slidegate/slidegate/httplimit"
	"github.com/slidegate/slidegate/redisstore"
	"github.com/slidegate/slidegate/redisstore/goredis"
	"github.com/slidegate/slidegate/rule"
	"github.com/slidegate/slidegate/store"
	"github.com/slidegate/slidegate/test/redistest"
)

// overGoRedis returns a store over a go-redis client.
func overGoRedis(t testing.TB, opts *redis.Options) store.Store {
	client := redis.NewClient(opts)
	t.Cleanup(func() { client.Close() })
	st, err := goredis.New(client, redisstore.Options{})
	if err != nil {
		t.Fatal(err)
	}
	return st
}

// overRueidis returns a store over a rueidis client, which connects immediately.
func overRueidis(t testing.TB, addr string) store.Store {
	client, err := rueidis.NewClient(rueidis.ClientOption{InitAddress: []string{addr}, DisableCache: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(client.Close)
	st, err := redisstore.New(client, redisstore.Options{})
	if err != nil {
		t.Fatal(err)
	}
	return st
}

// silentServer returns the address of a server that accepts connections and sends nothing.
func silentServer(t testing.TB) string {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	return l.Addr().String()
}

// closedAddress returns an address that refuses connections.
func closedAddress(t testing.TB) string {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	l.Close()
	return l.Addr().String()
}

// middlewares returns middlewares over a store, as functions that decide one request and return the flags of the decision.
func middlewares(t testing.TB, st store.Store) map[string]func(ctx context.Context) rule.Flags {
	limiter, err := slidegate.New(st, slidegate.PerHour(1_000_000))
	if err != nil {
		t.Fatal(err)
	}
	seen := make(chan rule.Flags, 1024)
	web, err := httplimit.New(limiter, httplimit.Options{
		OnDecision: func(_ *http.Request, e httplimit.Event) { seen <- e.Decision.Flags },
	})
	if err != nil {
		t.Fatal(err)
	}
	calls, err := grpclimit.New(limiter, grpclimit.Options{
		OnDecision: func(_ context.Context, e grpclimit.Event) { seen <- e.Decision.Flags },
	})
	if err != nil {
		t.Fatal(err)
	}
	handler := web.Wrap(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	return map[string]func(context.Context) rule.Flags{
		"httplimit": func(ctx context.Context) rule.Flags {
			handler.ServeHTTP(httptest.NewRecorder(), httptest.NewRequest("GET", "/", nil).WithContext(ctx))
			return <-seen
		},
		"grpclimit": func(ctx context.Context) rule.Flags {
			_, _ = calls.Unary()(ctx, nil, &grpc.UnaryServerInfo{FullMethod: "/a.B/C"}, func(context.Context, any) (any, error) { return nil, nil })
			return <-seen
		},
	}
}

// With every client, a server that does not answer delays one request, until its deadline at most; later requests are not
// delayed.
func TestSilentServerDelaysOneRequest(t *testing.T) {
	const timeout = 100 * time.Millisecond // the default
	for name, open := range map[string]func(t *testing.T) store.Store{
		"hung, go-redis": func(t *testing.T) store.Store { return overGoRedis(t, &redis.Options{Addr: silentServer(t)}) },
		"hung, go-redis that has timeouts": func(t *testing.T) store.Store {
			return overGoRedis(t, &redis.Options{Addr: silentServer(t), ContextTimeoutEnabled: true})
		},
		"refused, go-redis": func(t *testing.T) store.Store { return overGoRedis(t, &redis.Options{Addr: closedAddress(t)}) },
		"hung, rueidis": func(t *testing.T) store.Store {
			node := redistest.Server(t, "appendonly no")
			st := overRueidis(t, node.Addr())
			node.Signal(syscall.SIGSTOP)
			t.Cleanup(func() { node.Signal(syscall.SIGCONT) })
			return st
		},
		"killed, rueidis": func(t *testing.T) store.Store {
			node := redistest.Server(t, "appendonly no")
			st := overRueidis(t, node.Addr())
			node.Kill()
			return st
		},
	} {
		t.Run(name, func(t *testing.T) {
			for surface, decide := range middlewares(t, open(t)) {
				ctx, cancel := context.WithCancel(t.Context()) // as for requests
				defer cancel()
				fastest := time.Hour
				for i := range 10 {
					start := time.Now()
					flags := decide(ctx)
					took := time.Since(start)
					if flags != rule.FallbackLocal || took > 4*time.Second { // clients alone would give up after 5 or 10
						t.Errorf("%s: request %d: got flags %v after %v, want the fallback after about %v", surface, i+1, flags, took, timeout)
					}
					if i > 0 {
						fastest = min(fastest, took)
					}
				}
				if fastest >= timeout {
					t.Errorf("%s: the fastest of the later requests took %v, want less than %v: none may wait for the store", surface, fastest, timeout)
				}
			}
		})
	}
}
