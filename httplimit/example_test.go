package httplimit_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"testing/fstest"
	"time"

	"github.com/slidegate/slidegate"
	"github.com/slidegate/slidegate/clientip"
	"github.com/slidegate/slidegate/httplimit"
	"github.com/slidegate/slidegate/memstore"
	"github.com/slidegate/slidegate/rule"
)

// Three lines limit any handler.
func Example() {
	store := memstore.NewDefault()

	limiter, _ := slidegate.New(store, slidegate.PerHour(2))
	limits, _ := httplimit.New(limiter, httplimit.Options{})
	handler := limits.Wrap(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprintln(w, "hello") }))

	for range 3 {
		w := httptest.NewRecorder()
		handler.ServeHTTP(w, httptest.NewRequest("GET", "/", nil))
		fmt.Println(w.Code, w.Header().Get("Content-Type"))
	}
	// Output:
	// 200 text/plain; charset=utf-8
	// 200 text/plain; charset=utf-8
	// 429 application/problem+json
}

// At a route of http.ServeMux the key can be a part of the path: here every user gets one request per hour.
func ExampleMiddleware_Wrap() {
	store, _ := memstore.New(memstore.Options{})
	limiter, _ := slidegate.New(store, slidegate.PerHour(1))
	limits, _ := httplimit.New(limiter, httplimit.Options{Policies: []httplimit.Policy{{Key: httplimit.ByPathValue("name")}}})

	mux := http.NewServeMux()
	mux.Handle("GET /hello/{name}", limits.Wrap(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprintf(w, "hello, %s", r.PathValue("name"))
	})))
	for _, name := range []string{"ada", "bob", "ada"} {
		w := httptest.NewRecorder()
		mux.ServeHTTP(w, httptest.NewRequest("GET", "/hello/"+name, nil))
		fmt.Println(name, w.Code)
	}
	// Output:
	// ada 200
	// bob 200
	// ada 429
}

// A handler finds out who the client is, and limits by that: here every user has two attempts an hour, from whatever address.
func ExampleMiddleware_Respond() {
	limiter := slidegate.MustNew(memstore.NewDefault(), slidegate.PerHour(2))
	limits, _ := httplimit.New(limiter, httplimit.Options{Policies: []httplimit.Policy{{Key: httplimit.ByHandler()}}})

	login := func(w http.ResponseWriter, r *http.Request) {
		if limits.Respond(w, r, "", r.FormValue("user")) {
			return
		}
		fmt.Fprintln(w, "the password is wrong")
	}
	for _, user := range []string{"ann", "ann", "ann", "bob"} {
		w := httptest.NewRecorder()
		login(w, httptest.NewRequest("POST", "/login?user="+user, nil))
		fmt.Println(user, w.Code)
	}
	// Output:
	// ann 200
	// ann 200
	// ann 429
	// bob 200
}

// Every client has one request per hour for each page, however it spells the page.
func ExampleByPath() {
	each := httplimit.AllOf(httplimit.ByAddress(nil), httplimit.ByPath())
	handler := httplimit.Limit(1, time.Hour, each)(http.FileServerFS(fstest.MapFS{"a/index.html": {}, "b/index.html": {}}))
	for _, path := range []string{"/a/", "/b/", "/b", "/%61/", "/A/"} {
		w := httptest.NewRecorder()
		handler.ServeHTTP(w, httptest.NewRequest("GET", path, nil))
		fmt.Println(path, w.Code)
	}
	// Output:
	// /a/ 200
	// /b/ 200
	// /b 429
	// /%61/ 429
	// /A/ 429
}

// A login that counts failures by address, and an API with a quota per key and a quota for all keys together, behind a proxy.
func Example_policies() {
	limiter, _ := slidegate.New(memstore.NewDefault())
	proxies, _ := clientip.ParseProxies("10.0.0.0/8")
	client, _ := clientip.New(clientip.Options{Header: "X-Forwarded-For", Trusted: proxies})

	limits, err := httplimit.New(limiter, httplimit.Options{Policies: []httplimit.Policy{
		{
			Name:      "login",
			Match:     "POST /login",
			Key:       httplimit.ByAddress(client),
			Limits:    []slidegate.Limit{slidegate.PerMinute(5)},
			CostAfter: httplimit.CostIfStatus(func(status int) bool { return status == http.StatusUnauthorized }),
		},
		{
			Name:   "api",
			Match:  "/api/",
			Key:    httplimit.FirstOf(httplimit.ByAPIKey("X-Api-Key"), httplimit.ByAddress(client)),
			Limits: []slidegate.Limit{slidegate.PerMinute(100)},
		},
		{
			Name:   "everybody",
			Match:  "/api/",
			Key:    httplimit.Global(),
			Limits: []slidegate.Limit{slidegate.PerMinute(10_000)},
		},
	}})
	if err != nil {
		fmt.Println(err)
		return
	}
	handler := limits.Wrap(http.NotFoundHandler())
	w := httptest.NewRecorder()
	handler.ServeHTTP(w, httptest.NewRequest("GET", "/api/things", nil))
	fmt.Println(w.Header().Get("RateLimit-Policy"))
	// Output:
	// "api";q=100;w=60, "everybody";q=10000;w=60
}

// A handler that decides by itself writes the same response as the middleware.
func ExampleResponder() {
	store, _ := memstore.New(memstore.Options{Now: func() rule.Micros { return 1_767_268_800_000_000 }})
	limit := slidegate.PerHour(1)
	limit.Name = "api"
	limiter, _ := slidegate.New(store, limit)
	responder := httplimit.Responder{Body: httplimit.BodyText} // keep it beside the limiter

	for range 2 {
		d, err := limiter.Allow(context.Background(), "ann")
		w := httptest.NewRecorder()
		if responder.Write(w, limiter.Limits(), d, err) {
			fmt.Fprintln(w, "hello")
		}
		fmt.Println(w.Code, w.Header().Get("RateLimit"), w.Body)
	}
	// Output:
	// 200 "api";r=0;t=3600 hello
	//
	// 429 "api";r=0;t=3600 The quota is used up. Try again in 3600 seconds.
}

// One line, for a program with one process.
func ExampleLimitByIP() {
	hello := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "hello") })
	handler := httplimit.LimitByIP(2, time.Minute)(hello)
	for range 3 {
		w := httptest.NewRecorder()
		handler.ServeHTTP(w, httptest.NewRequest("GET", "/", nil))
		fmt.Println(w.Code)
	}
	// Output:
	// 200
	// 200
	// 429
}

// An administrator sees what a client has left, and resets its usage.
func ExampleMiddleware_Reset() {
	store, _ := memstore.New(memstore.Options{})
	limiter, _ := slidegate.New(store, slidegate.PerHour(2))
	limits, _ := httplimit.New(limiter, httplimit.Options{Policies: []httplimit.Policy{{
		Name: "api", Key: httplimit.ByHeader("X-User"),
	}}})
	handler := limits.Wrap(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	for range 2 {
		r := httptest.NewRequest("GET", "/", nil)
		r.Header.Set("X-User", "ann")
		handler.ServeHTTP(httptest.NewRecorder(), r)
	}

	ctx := context.Background()
	before, _ := limits.Peek(ctx, "api", "ann")
	err := limits.Reset(ctx, "api", "ann")
	after, _ := limits.Peek(ctx, "api", "ann")
	fmt.Println(before.Decision.Remaining, err, after.Decision.Remaining)
	fmt.Println(limits.Reset(ctx, "apii", "ann"))
	// Output:
	// 0 <nil> 2
	// httplimit: policy: unknown policy "apii"; want one of ["api"]
}

// If a key has several parts or limits depend on a plan, a request identifies the client.
func ExampleMiddleware_ResetRequest() {
	store, _ := memstore.New(memstore.Options{})
	limiter, _ := slidegate.New(store, slidegate.PerHour(1))
	limits, _ := httplimit.New(limiter, httplimit.Options{Policies: []httplimit.Policy{{
		Name: "api", Key: httplimit.FirstOf(httplimit.ByHeader("X-User"), httplimit.ByAddress(nil)),
	}}})
	handler := limits.Wrap(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	r := httptest.NewRequest("GET", "/", nil)
	r.Header.Set("X-User", "ann")
	handler.ServeHTTP(httptest.NewRecorder(), r)

	before, _ := limits.PeekRequest(r)
	_ = limits.ResetRequest(r)
	after, _ := limits.PeekRequest(r)
	fmt.Println(before.Decision.Allowed, after.Decision.Allowed)
	// Output: false true
}
