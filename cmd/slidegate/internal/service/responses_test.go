package service_test

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/slidegate/slidegate"
	"github.com/slidegate/slidegate/cmd/slidegate/internal/gate"
	"github.com/slidegate/slidegate/cmd/slidegate/internal/listener/forward"
	"github.com/slidegate/slidegate/cmd/slidegate/internal/listener/jsonapi"
	"github.com/slidegate/slidegate/cmd/slidegate/internal/listener/proxy"
	"github.com/slidegate/slidegate/cmd/slidegate/internal/testkit"
	"github.com/slidegate/slidegate/config"
	"github.com/slidegate/slidegate/httplimit"
	"github.com/slidegate/slidegate/internal/layer/failure"
	"github.com/slidegate/slidegate/memstore"
	"github.com/slidegate/slidegate/rule"
	"github.com/slidegate/slidegate/store"
)

// Each policy of responsePolicies matches the path of its name and has the limits in responseLimits.
const responsePolicies = `
failure: closed
policies:
  one:  {match: /one, key: "{address}", limits: [1/1m fixed-window name="<1> a \"minute\""]}
  two:  {match: /two, key: "{address}", limits: [3/1s fixed-window name=burst, 2/1h fixed-window]}
  big:  {match: /big, key: "{address}", limits: [2/1m fixed-window name=big], cost: 3, overrides: [{key: 192.0.2.9, limits: [3/1m fixed-window name=big]}]}
  block: {match: /block, key: "{address}", limits: [2/1m fixed-window], block: [192.0.2.1]}
`

var responseLimits = map[string][]string{
	"one": {`1/1m fixed-window name="<1> a \"minute\""`}, "two": {"3/1s fixed-window name=burst", "2/1h fixed-window"}, "big": {"2/1m fixed-window name=big"},
}

// breakableStore is a store that fails on demand.
type breakableStore struct {
	store.Store
	broken atomic.Bool
}

func (b *breakableStore) Apply(ctx context.Context, batch []store.Request) error {
	if !b.broken.Load() {
		return b.Store.Apply(ctx, batch)
	}
	err := errors.New("dial tcp 10.1.2.3:6379: connection refused")
	for i := range batch {
		batch[i].Err = err
	}
	return err
}

// newBreakableStore returns a store at the beginning of an hour, and failure mode closed over it.
func newBreakableStore(t *testing.T) (*breakableStore, store.Store) {
	t.Helper()
	memory, err := memstore.New(memstore.Options{Now: func() rule.Micros { return 1_800_000_000_000_000 }})
	must(t, err)
	inner := &breakableStore{Store: memory}
	closed := failure.New(inner, failure.Options{Mode: store.FailClosed, Local: memstore.NewDefault()})
	t.Cleanup(closed.Close)
	return inner, closed
}

var must = testkit.NoError

// surface is one of the handlers that send a limit's decision to an HTTP client.
type surface struct {
	store   *breakableStore
	serve   http.Handler
	request func(policy string) *http.Request
}

// plainRequest returns a client's own request.
func plainRequest(policy string) *http.Request {
	return httptest.NewRequest(http.MethodGet, "/"+policy, nil) // from 192.0.2.1
}

func throughMiddleware(t *testing.T, dialect httplimit.Headers) surface {
	inner, closed := newBreakableStore(t)
	mux := http.NewServeMux()
	for policy, texts := range responseLimits {
		var limits []slidegate.Limit
		for _, text := range texts {
			limits = append(limits, slidegate.MustParseLimit(text))
		}
		limiter, err := slidegate.New(closed, limits...)
		must(t, err)
		cost := int64(1)
		if policy == "big" {
			cost = 3
		}
		m, err := httplimit.New(limiter, httplimit.Options{Headers: dialect, Policies: []httplimit.Policy{{Cost: func(*http.Request) int64 { return cost }}}})
		must(t, err)
		mux.Handle("/"+policy, m.Wrap(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {})))
	}
	return surface{inner, mux, plainRequest}
}

func newGate(t *testing.T) (*breakableStore, *gate.Gate) {
	t.Helper()
	inner, closed := newBreakableStore(t)
	file, err := config.Parse("policies", []byte(responsePolicies))
	must(t, err)
	g, err := gate.New(file, closed, gate.Options{})
	must(t, err)
	t.Cleanup(func() { _ = g.Close() })
	return inner, g
}

func throughProxy(t *testing.T, dialect httplimit.Headers) surface {
	inner, g := newGate(t)
	application := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	t.Cleanup(application.Close)
	to, err := url.Parse(application.URL)
	must(t, err)
	p, err := proxy.New(g, proxy.Options{To: to, Headers: dialect})
	must(t, err)
	t.Cleanup(p.Close)
	return surface{inner, p, plainRequest}
}

func throughForward(t *testing.T) surface {
	inner, g := newGate(t)
	h, err := forward.New(g, forward.Options{})
	must(t, err)
	return surface{inner, h, func(policy string) *http.Request {
		r := httptest.NewRequest(http.MethodGet, forward.Path, nil)
		r.RemoteAddr = "127.0.0.1:1"
		r.Header = http.Header{"X-Forwarded-Method": {"GET"}, "X-Forwarded-Uri": {"/" + policy}, "X-Forwarded-Host": {"h"}, "X-Forwarded-For": {"192.0.2.1"}}
		return r
	}}
}

func throughJSON(t *testing.T) surface {
	inner, g := newGate(t)
	api, err := jsonapi.New(g, jsonapi.Options{})
	must(t, err)
	return surface{inner, api.Handler(), func(policy string) *http.Request {
		cost := "1"
		if policy == "big" {
			cost = "3"
		}
		body := `{"policy":"` + policy + `","key":"192.0.2.1","address":"192.0.2.1","cost":` + cost + `}`
		r := httptest.NewRequest(http.MethodPost, "/v1/allow", strings.NewReader(body))
		r.Header.Set("Content-Type", "application/json")
		return r
	}}
}

// limitFields returns the status of a response and its headers about limits.
func limitFields(w *httptest.ResponseRecorder) string {
	text := http.StatusText(w.Code)
	for _, name := range []string{"Retry-After", "Ratelimit-Policy", "Ratelimit", "Ratelimit-Limit", "Ratelimit-Remaining", "Ratelimit-Reset",
		"X-Ratelimit-Limit", "X-Ratelimit-Remaining", "X-Ratelimit-Reset"} {
		for _, value := range w.Header()[name] {
			text += "\n" + name + ": " + value
		}
	}
	return text
}

// responseStep is a request, the response in every dialect, and the body of a refusal.
type responseStep struct {
	policy string
	broken bool
	status string
	retry  string
	fields [httplimit.HeadersNone + 1]string
	body   string
}

const quotaProblem = `{"type":"https://iana.org/assignments/http-problem-types#quota-exceeded","title":"Too many requests","status":429,"detail":`

var responseSteps = []responseStep{
	{policy: "one", status: "OK", fields: [...]string{
		"\nRatelimit-Policy: \"<1> a \\\"minute\\\"\";q=1;w=60\nRatelimit: \"<1> a \\\"minute\\\"\";r=0;t=60",
		"\nRatelimit-Limit: 1\nRatelimit-Remaining: 0\nRatelimit-Reset: 60",
		"\nX-Ratelimit-Limit: 1\nX-Ratelimit-Remaining: 0\nX-Ratelimit-Reset: 1800000060",
		"\nX-Ratelimit-Limit: 1\nX-Ratelimit-Remaining: 0\nX-Ratelimit-Reset: 60", ""}},
	{policy: "one", status: "Too Many Requests", retry: "60", fields: [...]string{
		"\nRatelimit-Policy: \"<1> a \\\"minute\\\"\";q=1;w=60\nRatelimit: \"<1> a \\\"minute\\\"\";r=0;t=60",
		"\nRatelimit-Limit: 1\nRatelimit-Remaining: 0\nRatelimit-Reset: 60",
		"\nX-Ratelimit-Limit: 1\nX-Ratelimit-Remaining: 0\nX-Ratelimit-Reset: 1800000060",
		"\nX-Ratelimit-Limit: 1\nX-Ratelimit-Remaining: 0\nX-Ratelimit-Reset: 60", ""},
		body: quotaProblem + `"The quota is used up. Try again in 60 seconds.","violated-policies":["<1> a \"minute\""],"retry_after":60}`},
	{policy: "two", status: "OK", fields: [...]string{
		"\nRatelimit-Policy: \"burst\";q=3;w=1, \"2/1h fixed-window\";q=2;w=3600\nRatelimit: \"burst\";r=2;t=1, \"2/1h fixed-window\";r=1;t=3600",
		"\nRatelimit-Limit: 2\nRatelimit-Remaining: 1\nRatelimit-Reset: 3600",
		"\nX-Ratelimit-Limit: 2\nX-Ratelimit-Remaining: 1\nX-Ratelimit-Reset: 1800003600",
		"\nX-Ratelimit-Limit: 2\nX-Ratelimit-Remaining: 1\nX-Ratelimit-Reset: 3600", ""}},
	{policy: "big", status: "Too Many Requests", fields: [...]string{
		"\nRatelimit-Policy: \"big\";q=2;w=60\nRatelimit: \"big\";r=2",
		"\nRatelimit-Limit: 2\nRatelimit-Remaining: 2\nRatelimit-Reset: 0",
		"\nX-Ratelimit-Limit: 2\nX-Ratelimit-Remaining: 2\nX-Ratelimit-Reset: 1800000000",
		"\nX-Ratelimit-Limit: 2\nX-Ratelimit-Remaining: 2\nX-Ratelimit-Reset: 0", ""},
		body: quotaProblem + `"The request is larger than the quota, and will never be admitted.","violated-policies":["big"]}`},
	{policy: "one", broken: true, status: "Service Unavailable", retry: "1",
		body: `{"type":"https://iana.org/assignments/http-problem-types#temporary-reduced-capacity","title":"Service unavailable","status":503,` +
			`"detail":"The rate limit could not be checked.","retry_after":1}`},
}

// play sends the request of every step and compares the response. JSON has its own bodies for decisions.
func (w surface) play(t *testing.T, dialect httplimit.Headers, isJSON bool) {
	t.Helper()
	for _, step := range responseSteps {
		w.store.broken.Store(step.broken)
		got := httptest.NewRecorder()
		w.serve.ServeHTTP(got, w.request(step.policy))
		want := step.status
		if step.retry != "" {
			want += "\nRetry-After: " + step.retry
		}
		want += step.fields[dialect]
		if got := limitFields(got); got != want {
			t.Errorf("/%s, broken %v: got\n%s\nwant\n%s", step.policy, step.broken, got, want)
		}
		if isJSON && !step.broken || step.body == "" {
			continue
		}
		if got.Body.String() != step.body+"\n" || got.Header().Get("Content-Type") != "application/problem+json" || got.Header().Get("Cache-Control") != "no-store" {
			t.Errorf("/%s, broken %v: got %v\n%swant\n%s", step.policy, step.broken, got.Header(), got.Body, step.body)
		}
	}
}

// The middleware, the proxy, forward-auth and the JSON API send the same response for the same decision, byte for byte.
func TestSameAnswersByAllWays(t *testing.T) {
	for dialect := range httplimit.HeadersNone + 1 {
		t.Run("dialect "+string('0'+rune(dialect)), func(t *testing.T) {
			t.Run("middleware", func(t *testing.T) { throughMiddleware(t, dialect).play(t, dialect, false) })
			t.Run("proxy", func(t *testing.T) { throughProxy(t, dialect).play(t, dialect, false) })
		})
	}
	t.Run("forward", func(t *testing.T) { throughForward(t).play(t, httplimit.HeadersIETF, false) })
	t.Run("json", func(t *testing.T) { throughJSON(t).play(t, httplimit.HeadersIETF, true) })
}

// A client on a block list gets the same document from the proxy and from forward-auth, and nothing about limits.
func TestSameRefusalByAllWays(t *testing.T) {
	const want = `{"type":"about:blank","title":"Forbidden","status":403,"detail":"The client is on a block list."}` + "\n"
	for name, w := range map[string]surface{"proxy": throughProxy(t, httplimit.HeadersIETF), "forward": throughForward(t)} {
		got := httptest.NewRecorder()
		w.serve.ServeHTTP(got, w.request("block"))
		if limitFields(got) != "Forbidden" || got.Body.String() != want || got.Header().Get("Content-Type") != "application/problem+json" {
			t.Errorf("%s: got %s %v\n%s\nwant Forbidden as application/problem+json\n%s", name, limitFields(got), got.Header(), got.Body, want)
		}
	}
}
