// Harness that runs the functions made from the fragments of the pages, with real servers.
package sample

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"reflect"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/rueidis"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/health"
	"google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/status"

	"github.com/slidegate/slidegate"
	"github.com/slidegate/slidegate/httplimit"
	"github.com/slidegate/slidegate/layer/stack"
	"github.com/slidegate/slidegate/memstore"
	"github.com/slidegate/slidegate/redisstore"
	"github.com/slidegate/slidegate/store"
)

// function has the parameters of the function in prelude.go.
type function func(
	ctx context.Context,
	key, addr, token string,
	shared store.Store,
	limiter *slidegate.Limiter,
	limits *httplimit.Middleware,
	mux *http.ServeMux,
	handler http.Handler,
	w http.ResponseWriter,
	r *http.Request,
	t *testing.T,
)

// address returns the address of a server that the test has started.
func address(variable string) string { return os.Getenv(variable) }

// arguments are what functions are called with. All counts are in Redis if the test has started one.
type arguments struct {
	shared  *stack.Store
	limiter *slidegate.Limiter
	limits  *httplimit.Middleware
	mux     *http.ServeMux
	handler http.Handler
}

// patience is how long a store may take. It is long, so that a busy machine does not look like an outage.
const patience = 10 * time.Second

func newArguments(t *testing.T) *arguments {
	t.Helper()
	shared, err := stack.New(newStore(t), stack.Options{Failure: store.FailClosed, Timeout: patience})
	check(t, err)
	limiter, err := slidegate.New(shared, slidegate.Limit{Name: "samples", Quota: 100, Window: time.Minute})
	check(t, err)
	limits, err := httplimit.New(limiter, httplimit.Options{Policies: []httplimit.Policy{{Name: "api", Key: httplimit.ByHeader("X-Api-Key")}}})
	check(t, err)
	a := &arguments{shared: shared, limiter: limiter, limits: limits, mux: http.NewServeMux(), handler: http.HandlerFunc(hello)}
	a.mux.Handle("/hello", a.handler)
	return a
}

func hello(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "hello\n") }

// newStore returns a store over the Redis of the test, or in memory for functions that use none.
func newStore(t *testing.T) store.Store {
	t.Helper()
	if address("SAMPLE_REDIS") == "" {
		return memstore.NewDefault()
	}
	client, err := rueidis.NewClient(rueidis.ClientOption{InitAddress: []string{address("SAMPLE_REDIS")}})
	check(t, err)
	t.Cleanup(client.Close)
	redis, err := redisstore.New(client, redisstore.Options{})
	check(t, err)
	return redis
}

func (a *arguments) call(t *testing.T, f function, w http.ResponseWriter, r *http.Request) {
	t.Helper()
	f(t.Context(), "user:42", address("SAMPLE_LISTEN"), address("SAMPLE_TOKEN"), a.shared, a.limiter, a.limits, a.mux, a.handler, w, r, t)
}

// run calls a function and checks what the page promises about its arguments.
func run(t *testing.T, page string, f function) {
	a := newArguments(t)
	a.call(t, f, httptest.NewRecorder(), httptest.NewRequest(http.MethodGet, "/hello", nil))
	if _, pattern := a.mux.Handler(httptest.NewRequest(http.MethodGet, "/", nil)); pattern == "/" {
		limited(t, recorded(a.mux, "/", "ann"))
	}
	if promise := promises[page]; promise != nil {
		promise(t, a)
	}
}

// promises are further checks, by page.
var promises = map[string]func(t *testing.T, a *arguments){
	"docs/rulings.md": func(t *testing.T, a *arguments) {
		for key, want := range map[string]int{"alice": http.StatusTooManyRequests, "ann": http.StatusOK} {
			if got := recorded(a.limits.Wrap(a.handler), "/hello", key)(); got.StatusCode != want {
				t.Errorf("got status %d for %s, want %d", got.StatusCode, key, want)
			}
		}
	},
}

// runHandler calls a function that is the body of a handler, with one request after the other.
func runHandler(t *testing.T, _ string, f function) {
	a := newArguments(t)
	limited(t, recorded(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { a.call(t, f, w, r) }), "/hello", "ann"))
}

// check fails the test if a sample gets an error.
func check(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatalf("got error %v, want nil", err)
	}
}

// used checks a variable that a sample declares: it is not nil, and what decides decides correctly.
func used(t *testing.T, name string, value any) {
	t.Helper()
	switch v := reflect.ValueOf(value); v.Kind() {
	case reflect.Pointer, reflect.Map, reflect.Slice, reflect.Func, reflect.Invalid:
		if !v.IsValid() || v.IsNil() {
			t.Fatalf("%s is nil", name)
		}
	}
	switch v := value.(type) {
	case *slidegate.Limiter:
		if len(v.Limits()) > 0 { // otherwise the middleware over it is checked
			admits(t, v)
		}
	case *httplimit.Middleware:
		wrapped := v.Wrap(http.HandlerFunc(hello))
		if recorded(wrapped, "/hello", "bob")().Header.Get("RateLimit-Policy") == "" {
			shadowed(t, recorded(wrapped, "/hello", "ann"))
			return
		}
		limited(t, recorded(wrapped, "/hello", "ann"))
	case *grpc.Server:
		limitedCalls(t, v)
	case *http.Client:
		waits(t, v)
	case httplimit.Event:
		if !v.Decision.Allowed {
			t.Errorf("%s refuses: %+v", name, v)
		}
	case []int64: // the reply to SG.ALLOW
		if len(v) != 6 || v[0] != 1 || v[1] != 100 || v[2] != 99 {
			t.Errorf("%s is %v, want an admission that leaves 99 of 100", name, v)
		}
	}
}

// admits checks that a limiter admits its quota, or a thousand units of a large one, and then refuses.
func admits(t *testing.T, limiter *slidegate.Limiter) {
	t.Helper()
	quota := limiter.Limits()[0].Quota
	for n := range min(quota, 1000) {
		decision, err := limiter.Allow(t.Context(), "samples")
		check(t, err)
		if !decision.Allowed {
			t.Fatalf("the limiter refuses request %d of %d: %+v", n+1, quota, decision)
		}
	}
	if quota > 1000 {
		return
	}
	decision, err := limiter.Allow(t.Context(), "samples")
	check(t, err)
	if decision.Allowed || decision.RetryAfter <= 0 || decision.RetryAfter > time.Minute {
		t.Errorf("got %+v after the quota of %d, want a refusal for at most a minute", decision, quota)
	}
}

// recorded returns a function that calls a handler with a request of a client. Clients with different initials have different
// addresses.
func recorded(handler http.Handler, path, key string) func() *http.Response {
	return func() *http.Response {
		r := httptest.NewRequest(http.MethodGet, path, nil)
		r.Header.Set("X-Api-Key", key)
		r.RemoteAddr = fmt.Sprintf("192.0.2.%d:1234", key[0])
		w := httptest.NewRecorder()
		handler.ServeHTTP(w, r)
		return w.Result()
	}
}

var quotaOf = regexp.MustCompile(`;q=(\d+);w=`)

// limited checks that responses are limited by the smallest quota in their header.
func limited(t *testing.T, send func() *http.Response) {
	t.Helper()
	first := send()
	quota := 0
	for _, match := range quotaOf.FindAllStringSubmatch(first.Header.Get("RateLimit-Policy"), -1) {
		if n, _ := strconv.Atoi(match[1]); quota == 0 || n < quota {
			quota = n
		}
	}
	if quota == 0 {
		t.Fatalf("the response has the RateLimit-Policy %q, want a quota in it", first.Header.Get("RateLimit-Policy"))
	}
	for n, response := 1, first; ; n, response = n+1, send() {
		if response.StatusCode != http.StatusOK {
			t.Fatalf("got status %d for request %d of %d, want 200", response.StatusCode, n, quota)
		}
		if n == quota {
			break
		}
	}
	refusal := send()
	wait, err := strconv.Atoi(refusal.Header.Get("Retry-After"))
	if refusal.StatusCode != http.StatusTooManyRequests || err != nil || wait <= 0 {
		t.Errorf("got status %d and Retry-After %q after the quota of %d, want 429 and a number", refusal.StatusCode, refusal.Header.Get("Retry-After"), quota)
	}
}

// shadowed checks that a middleware without header fields, over a quota of 100, refuses nothing and logs what it would refuse.
func shadowed(t *testing.T, send func() *http.Response) {
	t.Helper()
	var logged bytes.Buffer
	before := slog.Default()
	slog.SetDefault(slog.New(slog.NewTextHandler(&logged, nil)))
	defer slog.SetDefault(before)
	for n := range 200 {
		if response := send(); response.StatusCode != http.StatusOK {
			t.Fatalf("got status %d for request %d, want 200", response.StatusCode, n+1)
		}
	}
	if got := strings.Count(logged.String(), "would be refused"); got != 100 {
		t.Errorf("%d refusals are logged for 200 requests, want 100", got)
	}
}

// listenAndServe is http.ListenAndServe in the background. It checks that what is served is limited.
func listenAndServe(t *testing.T, addr string, handler http.Handler) {
	t.Helper()
	server := &http.Server{Addr: addr, Handler: handler}
	ended := make(chan error, 1)
	go func() { ended <- server.ListenAndServe() }()
	t.Cleanup(func() { _ = server.Close() })
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	late := time.After(patience)
	for {
		connection, err := net.Dial("tcp", addr)
		if err == nil {
			_ = connection.Close()
			break
		}
		select {
		case err := <-ended:
			t.Fatalf("the server ends: %v", err)
		case <-late:
			t.Fatalf("the server does not listen: %v", err)
		case <-tick.C:
		}
	}
	limited(t, func() *http.Response {
		response, err := http.Get("http://" + addr + "/hello")
		check(t, err)
		check(t, response.Body.Close())
		return response
	})
}

// limitedCalls checks that a gRPC server admits 100 calls and refuses the next.
func limitedCalls(t *testing.T, server *grpc.Server) {
	t.Helper()
	grpc_health_v1.RegisterHealthServer(server, health.NewServer())
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	check(t, err)
	go func() { _ = server.Serve(listener) }()
	t.Cleanup(server.Stop)
	conn, err := grpc.NewClient(listener.Addr().String(), grpc.WithTransportCredentials(insecure.NewCredentials()))
	check(t, err)
	t.Cleanup(func() { _ = conn.Close() })
	client := grpc_health_v1.NewHealthClient(conn)
	for n := range 101 {
		_, err := client.Check(t.Context(), &grpc_health_v1.HealthCheckRequest{}, grpc.WaitForReady(true))
		want := codes.OK
		if n == 100 {
			want = codes.ResourceExhausted
		}
		if status.Code(err) != want {
			t.Fatalf("got %v for call %d, want %v", err, n+1, want)
		}
	}
}

// waits checks that a client obeys a server that refuses its first request for a second.
func waits(t *testing.T, client *http.Client) {
	t.Helper()
	var mu sync.Mutex
	var times []time.Time
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		if times = append(times, time.Now()); len(times) == 1 {
			w.Header().Set("Retry-After", "1")
			w.WriteHeader(http.StatusTooManyRequests)
		}
	}))
	defer server.Close()
	for _, want := range []int{http.StatusTooManyRequests, http.StatusOK} {
		response, err := client.Get(server.URL)
		check(t, err)
		check(t, response.Body.Close())
		if response.StatusCode != want {
			t.Fatalf("got status %d, want %d", response.StatusCode, want)
		}
	}
	if gap := times[1].Sub(times[0]); gap < time.Second {
		t.Errorf("the second request is sent after %v, want after a second", gap)
	}
}
