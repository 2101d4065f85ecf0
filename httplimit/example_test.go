package httplimit_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"time"

	"github.com/slidegate/slidegate"
	"github.com/slidegate/slidegate/clientip"
	"github.com/slidegate/slidegate/httplimit"
	"github.com/slidegate/slidegate/memstore"
)

// Three lines make any handler limited.
func Example() {
	store, _ := memstore.New(memstore.Options{})

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

// A login that counts failures by address, and an API with a quota per key and a budget for everybody, behind a proxy.
func Example_policies() {
	store, _ := memstore.New(memstore.Options{})
	limiter, _ := slidegate.New(store)
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

// One line, for a program of one process.
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
