package routers

import (
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/gin-gonic/gin"
	"github.com/gofiber/fiber/v3"
	"github.com/slidegate/slidegate"
	"github.com/slidegate/slidegate/httplimit"
	"github.com/slidegate/slidegate/memstore"
	"github.com/slidegate/slidegate/store"
)

func TestMain(m *testing.M) {
	gin.SetMode(gin.ReleaseMode) // it prints every route otherwise
	os.Exit(m.Run())
}

// site holds what the handlers of a test's server need. All routers serve the same routes with it:
//
//	GET  /hello/{name}  greets, and adds the name to greeted
//	GET  /json          {"ok":true}
//	GET  /nothing       204
//	GET  /moved         a redirect
//	GET  /file          a file of 100,000 bytes
//	GET  /cost          sets its cost to 3 by SetCost
//	POST /login         401 unless ?password=right, by an error if the router's handlers return those
//	GET  /fails         500, by an error without a status if the router's handlers return errors
//	GET  /panics        panics
//	GET  /stream        "one\n", and "two\n" when the test lets it proceed
//	GET  /upgrade       takes over the connection and echoes each line
//	GET  /deadline      sets a deadline by http.ResponseController; not in fiber
type site struct {
	file    string
	proceed chan struct{} // lets the stream continue

	mu      sync.Mutex
	greeted []string

	recoverInside bool // panics are recovered inside the middleware, and not outside
}

func newSite(t *testing.T) *site {
	t.Helper()
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, []byte(strings.Repeat("0123456789", 10_000)), 0o600); err != nil {
		t.Fatal(err)
	}
	return &site{file: file, proceed: make(chan struct{}, 1)}
}

func (s *site) greet(name string) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.greeted = append(s.greeted, strings.Clone(name)) // fiber reuses the bytes
	return "hello, " + name
}

// router is one of the routers. Its middleware comes before all routes.
type router struct {
	name    string
	handler func(*httplimit.Middleware, *site) http.Handler
	app     func(*httplimit.Middleware, *site) *fiber.App // set instead of handler
}

var routers = []router{
	{name: "net/http", handler: muxSite},
	{name: "chi", handler: chiSite},
	{name: "gin", handler: ginSite},
	{name: "echo4", handler: echoSite(echo4Version)},
	{name: "echo5", handler: echoSite(echo5Version)},
	{name: "fiber", app: fiberSite},
}

// forAll runs a test with every router.
func forAll(t *testing.T, test func(t *testing.T, router router)) {
	for _, router := range routers {
		t.Run(router.name, func(t *testing.T) { test(t, router) })
	}
}

// isNetHTTP reports whether the router is built on net/http.
func (r router) isNetHTTP() bool { return r.app == nil }

// serve runs the router's site until the test ends, and returns the address of the server.
func (r router) serve(t *testing.T, limits *httplimit.Middleware, s *site) string {
	t.Helper()
	if r.app != nil {
		return serveFiber(t, r.app(limits, s))
	}
	return serve(t, r.handler(limits, s))
}

// serve runs a handler until the test ends, and returns the address of its server.
func serve(t *testing.T, handler http.Handler) string {
	t.Helper()
	server := httptest.NewUnstartedServer(handler)
	server.Config.ErrorLog = log.New(io.Discard, "", 0)
	server.Start()
	t.Cleanup(server.Close)
	return server.Listener.Addr().String()
}

// serveFiber does the same for fiber, which has its own server.
func serveFiber(t *testing.T, app *fiber.App) string {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan error, 1)
	go func() { done <- app.Listener(listener, fiber.ListenConfig{DisableStartupMessage: true}) }()
	t.Cleanup(func() {
		http.DefaultClient.CloseIdleConnections() // the server would wait for them
		if err := app.Shutdown(); err != nil {
			t.Error(err)
		}
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	return listener.Addr().String()
}

// newLimits returns a middleware with its own store.
func newLimits(t *testing.T, policies ...httplimit.Policy) *httplimit.Middleware {
	t.Helper()
	return newLimitsWith(t, httplimit.Options{Policies: policies})
}

func newLimitsWith(t *testing.T, opts httplimit.Options) *httplimit.Middleware {
	t.Helper()
	memory, err := memstore.New(memstore.Options{})
	if err != nil {
		t.Fatal(err)
	}
	return newLimitsOver(t, memory, opts)
}

func newLimitsOver(t *testing.T, on store.Store, opts httplimit.Options) *httplimit.Middleware {
	t.Helper()
	limiter, err := slidegate.New(on)
	if err != nil {
		t.Fatal(err)
	}
	limits, err := httplimit.New(limiter, opts)
	if err != nil {
		t.Fatal(err)
	}
	return limits
}

// perMinute returns the Limits of a policy.
func perMinute(quota int64) []slidegate.Limit { return []slidegate.Limit{slidegate.PerMinute(quota)} }

// responseWatcher returns a middleware that admits everything, and a channel that receives the response to each request as seen by a
// policy with a CostAfter.
func responseWatcher(t *testing.T) (*httplimit.Middleware, <-chan httplimit.Response) {
	t.Helper()
	seen := make(chan httplimit.Response, 100)
	return newLimits(t, httplimit.Policy{
		Name:   "watched",
		Limits: perMinute(1000),
		CostAfter: func(_ *http.Request, answer httplimit.Response) int64 {
			seen <- answer
			return 1
		},
	}), seen
}

// response is a response that has been read.
type response struct {
	*http.Response
	body string
}

// do sends a request, follows no redirect, and reads the response.
func do(t *testing.T, method, url string) response {
	t.Helper()
	r, err := http.NewRequest(method, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	return send(t, r)
}

func send(t *testing.T, r *http.Request) response {
	t.Helper()
	got, err := exchange(r)
	if err != nil {
		t.Fatal(err)
	}
	return got
}

// exchange is send for goroutines, which must not call Fatal.
func exchange(r *http.Request) (response, error) {
	got, err := http.DefaultTransport.RoundTrip(r)
	if err != nil {
		return response{}, err
	}
	defer got.Body.Close()
	body, err := io.ReadAll(got.Body)
	return response{got, string(body)}, err
}
