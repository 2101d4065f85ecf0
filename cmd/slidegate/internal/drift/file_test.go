package drift

import (
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/slidegate/slidegate"
	"github.com/slidegate/slidegate/cmd/slidegate/internal/gate"
	"github.com/slidegate/slidegate/config"
	"github.com/slidegate/slidegate/httplimit"
	"github.com/slidegate/slidegate/memstore"
	"github.com/slidegate/slidegate/policy"
	"github.com/slidegate/slidegate/rule"
	"github.com/slidegate/slidegate/storetest"
)

const oneFile = `
trusted_proxies: [203.0.113.0/24]
policies:
  everybody:
    key: "{host}"
    cost: 2
    limits: [90/1m]
  api:
    match: API.example.com/api/
    limits: [5/10s, 20/1m name=long]
    overrides:
      - key: 192.0.2.7
        limits: [1/10s]
      - keys: 192.0.2.8*
        unlimited: true
    allow: [192.0.2.9]
    block: ["key:192.0.2.66", 198.51.100.0/24]
  login:
    match: POST /login
    key: "{user} {header:X-Tenant}"
    limits: [3/30s sliding-log]
    shadow: true
  free:
    match: /free/
    cost: 0
    limits: [1/1h]
`

// TestMiddlewareAndServiceAgree compares the decisions of the middleware and of the service with the same file, request by request.
func TestMiddlewareAndServiceAgree(t *testing.T) {
	file, err := config.Parse("one.yaml", []byte(oneFile))
	if err != nil {
		t.Fatal(err)
	}
	clock := storetest.NewClock(1_800_000_000_000_000)
	on := newMemory(t, clock)
	g, err := gate.New(file, on, gate.Options{Requests: true})
	if err != nil {
		t.Fatal(err)
	}
	defer g.Close()
	limiter, err := slidegate.New(newMemory(t, clock))
	if err != nil {
		t.Fatal(err)
	}
	opts, err := config.HTTP(file)
	if err != nil {
		t.Fatal(err)
	}
	events := map[string]httplimit.Event{} // by policy
	var shadows int
	opts.OnDecision = func(_ *http.Request, e httplimit.Event) {
		if e.Shadow {
			shadows++
		} else {
			events[e.Policy] = e
		}
	}
	m, err := httplimit.New(limiter, opts)
	if err != nil {
		t.Fatal(err)
	}
	handler := m.Wrap(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	seed := rand.Uint64()
	random := rand.New(rand.NewPCG(seed, 1))
	statuses := map[int]int{}
	for i := range 3000 {
		clock.Advance(rule.Micros(random.IntN(300_000)))
		r := drawRequest(random)
		about := fmt.Sprintf("seed %d, request %d: %s %s%s from %s", seed, i, r.Method, r.Host, r.URL, r.RemoteAddr)
		v, err := g.CheckRequest(r.Context(), r)
		if err != nil {
			t.Fatalf("%s: the service returned the error %v, want none", about, err)
		}
		clear(events)
		w := httptest.NewRecorder()
		handler.ServeHTTP(w, r)
		statuses[w.Code]++
		if admitted := w.Code == http.StatusOK; admitted != v.Decision.Allowed {
			t.Fatalf("%s: the middleware answers %d, want what the service decides: %+v", about, w.Code, v)
		}
		if len(events) == 0 || v.By != policy.ByLimits || v.Shadow {
			continue
		}
		event := events[v.Policy]
		e, d := event.Decision, v.Decision
		if event.Policy != v.Policy || e.Remaining != d.Remaining || e.RetryAfter != d.RetryAfter || e.ResetAfter != d.ResetAfter {
			t.Fatalf("%s: the middleware's event is %+v, want the policy and figures of the service: %+v", about, event, v)
		}
	}
	if statuses[200] < 300 || statuses[429] < 300 || statuses[403] < 30 || shadows < 100 {
		t.Errorf("seed %d: statuses %v and %d shadows; want at least 300 of 200, 300 of 429, 30 of 403, and 100",
			seed, statuses, shadows)
	}
}

// newMemory returns a store that uses clock.
func newMemory(t *testing.T, clock *storetest.Clock) *memstore.Store {
	t.Helper()
	s, err := memstore.New(memstore.Options{Now: clock.Now})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func drawRequest(random *rand.Rand) *http.Request {
	pick := func(texts ...string) string { return texts[random.IntN(len(texts))] }
	r := httptest.NewRequest(pick("GET", "POST"), pick("/api/x", "/api%2Fx", "/login", "//login", "/free/x", "/"), nil)
	r.Host = pick("api.example.com", "API.Example.com.", "api.example.com:8080", "www.example.com")
	client := pick("192.0.2.1", "192.0.2.2", "192.0.2.7", "192.0.2.80", "192.0.2.9", "192.0.2.66", "198.51.100.3")
	r.RemoteAddr = client + ":4711"
	if random.IntN(2) == 0 {
		r.RemoteAddr = "203.0.113.1:80"
		r.Header.Set("X-Forwarded-For", "10.0.0.1, "+client)
	}
	r.Header.Set("X-Tenant", pick("a", "b"))
	return r.WithContext(config.WithUser(r.Context(), pick("ann", "bob")))
}
