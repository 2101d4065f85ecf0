package httplimit

import (
	"net/http"
	"net/http/httptest"
	"net/netip"
	"testing"
	"time"

	"github.com/slidegate/slidegate"
	"github.com/slidegate/slidegate/policy"
	"github.com/slidegate/slidegate/store"
)

// The application's functions are called once per request, even if the store fails: they may be slow, or count.
func TestFunctionsAreCalledOnce(t *testing.T) {
	for _, mode := range []store.Mode{store.FailOpen, store.FailLocal, store.FailClosed} {
		for name, after := range map[string]CostAfter{"alone": nil, "settled": CostFromHandler()} {
			calls := map[string]int{}
			given := Policy{
				Limits: []slidegate.Limit{named("", 5)}, CostAfter: after,
				Skip: func(*http.Request) bool { calls["skip"]++; return false },
				Key:  KeyFunc(func(*http.Request) (string, error) { calls["key"]++; return "", nil }),
				Cost: func(*http.Request) int64 { calls["cost"]++; return 1 },
				Plan: func(*http.Request) (policy.Plan, error) { calls["plan"]++; return policy.Plan{}, nil },
			}
			p := (&play{t: t}).over(&broken{}, Options{Policies: []Policy{given}, Failure: mode}, nil)
			p.from("192.0.2.1")
			for _, what := range []string{"skip", "key", "cost", "plan"} {
				if calls[what] != 1 {
					t.Errorf("%v, %s: %s was called %d times, want once", mode, name, what, calls[what])
				}
			}
		}
	}
}

// Lists and overrides are decided by the policy engine.
func TestListsAndOverrides(t *testing.T) {
	p := newPlay(t, Options{Policies: []Policy{{
		Name: "api", Limits: []slidegate.Limit{named("", 2)},
		Overrides: []policy.Override{{Key: "192.0.2.7", Limits: []slidegate.Limit{named("", 1)}}, {Key: "192.0.2.8*", Pattern: true, Unlimited: true}},
		Allow:     policy.List{Keys: []string{"192.0.2.9"}},
		Block:     policy.List{Addresses: []netip.Prefix{netip.MustParsePrefix("198.51.100.0/24")}},
	}}}, nil)
	for address, want := range map[string][]int{
		"192.0.2.1": {200, 200, 429}, "192.0.2.7": {200, 429}, "192.0.2.80": {200, 200, 200}, "192.0.2.9": {200, 200, 200}, "198.51.100.1": {403, 403},
	} {
		p.want(func() *httptest.ResponseRecorder { return p.from(address) }, want...)
	}
	w := p.from("198.51.100.1")
	if got := w.Body.String(); got != refusedBodies[BodyProblem] || w.Header().Get("Retry-After") != "" || w.Header().Get("RateLimit") != "" {
		t.Errorf("on the block list: got body %q with %v, want %q without Retry-After and RateLimit", got, w.Header(), refusedBodies[BodyProblem])
	}
	if e := p.last(); e.By != policy.ByBlockList || !e.Refused {
		t.Errorf("got event %+v, want a refusal by the block list", e)
	}
}

// The one-line constructors.
func TestConstructorsLimit(t *testing.T) {
	for name, test := range map[string]struct {
		wrap func(http.Handler) http.Handler
		want [4]int // two requests of one client, two of another
	}{
		"by address":    {LimitByIP(1, time.Hour), [4]int{200, 429, 200, 429}},
		"all":           {LimitAll(3, time.Hour), [4]int{200, 200, 200, 429}},
		"by a key":      {Limit(2, time.Hour, ByHeader("X-Tenant")), [4]int{200, 200, 429, 429}},
		"by two keys":   {Limit(1, time.Hour, ByHeader("X-Tenant"), ByAddress(nil)), [4]int{200, 429, 200, 429}},
		"without a key": {Limit(2, time.Hour), [4]int{200, 200, 429, 429}},
	} {
		handler := test.wrap(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
		for i, want := range test.want {
			r := request("X-Tenant: acme")
			r.RemoteAddr = []string{"192.0.2.1:1", "192.0.2.2:1"}[i/2]
			w := httptest.NewRecorder()
			if handler.ServeHTTP(w, r); w.Code != want {
				t.Errorf("%s, request %d: got status %d, want %d", name, i+1, w.Code, want)
			}
		}
	}
	defer func() {
		if recover() == nil {
			t.Error("an empty limit is accepted, want a panic")
		}
	}()
	LimitByIP(0, time.Hour)
}
