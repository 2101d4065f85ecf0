package routers

import (
	"encoding/json"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"strconv"
	"strings"
	"testing"

	"github.com/gin-gonic/gin"
	"github.com/gofiber/fiber/v3"
	"github.com/gofiber/fiber/v3/middleware/adaptor"
	"github.com/slidegate/slidegate"
	"github.com/slidegate/slidegate/httplimit"
	"github.com/slidegate/slidegate/memstore"
)

func TestMain(m *testing.M) {
	gin.SetMode(gin.ReleaseMode) // it prints every route otherwise
	os.Exit(m.Run())
}

// routers are all of them, as handlers of net/http.
var routers = []struct {
	name string
	open func(*httplimit.Middleware, func(string) string) http.Handler
}{
	{"net/http", Mux},
	{"chi", Chi},
	{"gin", Gin},
	{"echo", Echo},
	{"fiber", func(limits *httplimit.Middleware, greet func(string) string) http.Handler {
		return adaptor.FiberApp(Fiber(limits, greet))
	}},
}

// newLimits returns a middleware with one policy, over a store of its own.
func newLimits(t *testing.T, policy httplimit.Policy) *httplimit.Middleware {
	t.Helper()
	store, err := memstore.New(memstore.Options{})
	if err != nil {
		t.Fatal(err)
	}
	limiter, err := slidegate.New(store)
	if err != nil {
		t.Fatal(err)
	}
	limits, err := httplimit.New(limiter, httplimit.Options{Policies: []httplimit.Policy{policy}})
	if err != nil {
		t.Fatal(err)
	}
	return limits
}

func threeAMinute(t *testing.T) *httplimit.Middleware {
	return newLimits(t, httplimit.Policy{Name: "hello", Limits: []slidegate.Limit{slidegate.MustParseLimit("3/1m")}})
}

// ask sends a request from an address.
func ask(h http.Handler, from, path string) *http.Response {
	r := httptest.NewRequest(http.MethodGet, path, nil)
	r.RemoteAddr = from
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w.Result()
}

func TestRouters(t *testing.T) {
	for _, router := range routers {
		t.Run(router.name, func(t *testing.T) {
			var greeted []string
			h := router.open(threeAMinute(t), func(name string) string {
				greeted = append(greeted, strings.Clone(name)) // fiber uses the bytes again
				return "hello, " + name
			})
			for _, step := range []struct {
				from, path, body string // no body: refused
				ratelimit        string // how the header begins
			}{
				{"192.0.2.1:1001", "/hello/ada", "hello, ada", `"hello";r=2;t=`},
				{"192.0.2.1:1002", "/hello/bob", "hello, bob", `"hello";r=1;t=`},
				{"192.0.2.1:1003", "/hello/cyd", "hello, cyd", `"hello";r=0`},
				{"192.0.2.1:1004", "/hello/dan", "", `"hello";r=0;t=`},
				{"198.51.100.7:1001", "/hello/eve", "hello, eve", `"hello";r=2;t=`},
				{"192.0.2.1:1005", "/hello/fay", "", `"hello";r=0;t=`},
			} {
				response := ask(h, step.from, step.path)
				if got := response.Header.Get("RateLimit"); !strings.HasPrefix(got, step.ratelimit) {
					t.Errorf("%s %s: RateLimit is %q, want %s...", step.from, step.path, got, step.ratelimit)
				}
				if got := response.Header.Get("RateLimit-Policy"); got != `"hello";q=3;w=60` {
					t.Errorf("%s %s: RateLimit-Policy is %q", step.from, step.path, got)
				}
				if step.body == "" {
					checkRefusal(t, response)
				} else {
					checkGreeting(t, response, step.body)
				}
			}
			if got := strings.Join(greeted, " "); got != "ada bob cyd eve" {
				t.Errorf("the handler was called for %s", got)
			}
		})
	}
}

func checkGreeting(t *testing.T, response *http.Response, want string) {
	t.Helper()
	body := text(t, response)
	if response.StatusCode != http.StatusOK || body != want || response.Header.Get("Retry-After") != "" {
		t.Errorf("%d %q with Retry-After %q, want 200 %q", response.StatusCode, body, response.Header.Get("Retry-After"), want)
	}
}

// checkRefusal wants a 429 that says when to come back. Three requests of a minute that has just begun are in the way for
// that minute and a third of the next one: 80 seconds at most.
func checkRefusal(t *testing.T, response *http.Response) {
	t.Helper()
	if response.StatusCode != http.StatusTooManyRequests {
		t.Errorf("status %d, want 429", response.StatusCode)
	}
	if got := response.Header.Values("Content-Type"); len(got) != 1 || got[0] != "application/problem+json" {
		t.Errorf("Content-Type is %q", got)
	}
	seconds, err := strconv.Atoi(response.Header.Get("Retry-After"))
	if err != nil || seconds < 1 || seconds > 80 {
		t.Errorf("Retry-After is %q", response.Header.Get("Retry-After"))
	}
	var problem struct {
		Status     int      `json:"status"`
		Violated   []string `json:"violated-policies"`
		RetryAfter int      `json:"retry_after"`
	}
	body := text(t, response)
	if err := json.Unmarshal([]byte(body), &problem); err != nil {
		t.Fatalf("%v in %q", err, body)
	}
	if problem.Status != 429 || len(problem.Violated) != 1 || problem.Violated[0] != "hello" || problem.RetryAfter != seconds {
		t.Errorf("the body is %s, Retry-After is %d", body, seconds)
	}
}

func text(t *testing.T, response *http.Response) string {
	t.Helper()
	body, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	return string(body)
}

// The same over a connection: what a server adds or leaves out of a response must not break it.
func TestRoutersOverTheWire(t *testing.T) {
	for _, router := range routers {
		t.Run(router.name, func(t *testing.T) {
			greet := func(name string) string { return "hello, " + name }
			address := "http://" + serve(t, router.name, router.open, greet)
			for i := range 4 {
				response, err := http.Get(address + "/hello/ada")
				if err != nil {
					t.Fatal(err)
				}
				defer response.Body.Close()
				if i < 3 {
					checkGreeting(t, response, "hello, ada")
				} else {
					checkRefusal(t, response)
				}
			}
		})
	}
}

// serve runs a router until the test ends, fiber in its own server.
func serve(t *testing.T, name string, open func(*httplimit.Middleware, func(string) string) http.Handler, greet func(string) string) string {
	t.Helper()
	if name != "fiber" {
		server := httptest.NewServer(open(threeAMinute(t), greet))
		t.Cleanup(server.Close)
		return server.Listener.Addr().String()
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	app := Fiber(threeAMinute(t), greet)
	done := make(chan error, 1)
	go func() { done <- app.Listener(listener, fiber.ListenConfig{DisableStartupMessage: true}) }()
	t.Cleanup(func() {
		if err := app.Shutdown(); err != nil {
			t.Error(err)
		}
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	return listener.Addr().String()
}

// Policies that charge by the response must see it through the adapters. Fiber's does not show it.
func TestRoutersShowTheResponse(t *testing.T) {
	for _, router := range routers {
		if router.name == "fiber" {
			continue
		}
		t.Run(router.name, func(t *testing.T) {
			limits := newLimits(t, httplimit.Policy{
				Limits: []slidegate.Limit{slidegate.MustParseLimit("20/1m")}, CostAfter: httplimit.CostOfBytes(1),
			})
			h := router.open(limits, func(name string) string { return "hello, " + name })
			for i, want := range []int{200, 200, 429} { // ten bytes each
				if got := ask(h, "192.0.2.1:1000", "/hello/ada").StatusCode; got != want {
					t.Errorf("request %d: %d, want %d", i, got, want)
				}
			}
		})
	}
}

// Who looks for pages that do not exist is stopped after three, and other requests are free. The routers that have the
// middleware before all their routes have it before a 404 too.
func TestRoutersShowTheStatus(t *testing.T) {
	for _, router := range routers {
		if router.name == "fiber" || router.name == "net/http" {
			continue
		}
		t.Run(router.name, func(t *testing.T) {
			limits := newLimits(t, httplimit.Policy{
				Limits:    []slidegate.Limit{slidegate.MustParseLimit("3/1m")},
				CostAfter: httplimit.CostIfStatus(func(status int) bool { return status == http.StatusNotFound }),
			})
			h := router.open(limits, func(name string) string { return "hello, " + name })
			for i, step := range []struct {
				path string
				want int
			}{
				{"/hello/ada", 200}, {"/hello/ada", 200}, {"/hello/ada", 200}, {"/hello/ada", 200},
				{"/admin", 404}, {"/hello/ada", 200}, {"/backup", 404}, {"/login", 404}, {"/secret", 429}, {"/hello/ada", 429},
			} {
				if got := ask(h, "192.0.2.1:1000", step.path).StatusCode; got != step.want {
					t.Errorf("request %d, %s: %d, want %d", i, step.path, got, step.want)
				}
			}
		})
	}
}

// A handler behind the middleware of gin must not be called after a refusal, and one before it still sees the answer.
func TestGinChainStops(t *testing.T) {
	var calls []string
	r := gin.New()
	r.Use(
		func(c *gin.Context) {
			c.Next()
			calls = append(calls, "before saw "+strconv.Itoa(c.Writer.Status()))
		},
		ginLimit(threeAMinute(t)),
		func(c *gin.Context) { calls = append(calls, "after") },
	)
	r.GET("/", func(c *gin.Context) { c.Status(http.StatusNoContent) })
	for range 4 {
		ask(r, "192.0.2.1:1000", "/")
	}
	want := "after, before saw 204, after, before saw 204, after, before saw 204, before saw 429"
	if got := strings.Join(calls, ", "); got != want {
		t.Errorf("%s\nwant %s", got, want)
	}
}
