package httplimit_test

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/slidegate/slidegate"
	"github.com/slidegate/slidegate/httplimit"
	"github.com/slidegate/slidegate/memstore"
	"github.com/slidegate/slidegate/store"
)

// oneKey is a store that decides one key at a time, as key-value engines do.
type oneKey struct{ store.Store }

func (oneKey) Traits() store.Traits {
	return store.Traits{Name: "one key", MaxCharges: 8, OneKey: true}
}

// Policies with different keys that one request matches are rejected by New, or, where only the request shows that the
// keys differ, by a response that admits nothing.
func TestPoliciesOfDifferentKeys(t *testing.T) {
	limiter, err := slidegate.New(oneKey{memstore.NewDefault()})
	if err != nil {
		t.Fatal(err)
	}
	policies := func(keys ...httplimit.Key) httplimit.Options {
		var opts httplimit.Options
		for i, key := range keys {
			opts.Policies = append(opts.Policies, httplimit.Policy{Name: string(rune('a' + i)), Key: key, Limits: []slidegate.Limit{slidegate.PerHour(10)}})
		}
		return opts
	}
	if _, err := httplimit.New(limiter, policies(httplimit.Global(), httplimit.ByHeader("X-Tenant"))); !errors.Is(err, slidegate.ErrUnsupported) {
		t.Errorf("a global policy and one per tenant: got %v, want an error that wraps ErrUnsupported", err)
	}
	limits, err := httplimit.New(limiter, policies(httplimit.ByHeader("X-Tenant"), httplimit.ByHeader("X-User")))
	if err != nil {
		t.Fatal(err) // before a request comes, two keys by header look alike
	}
	served := 0
	handler := limits.Wrap(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { served++ }))
	for user, want := range map[string]int{"acme": http.StatusOK, "ann": http.StatusInternalServerError} {
		r := httptest.NewRequest("GET", "/", nil)
		r.Header.Set("X-Tenant", "acme")
		r.Header.Set("X-User", user)
		w := httptest.NewRecorder()
		if handler.ServeHTTP(w, r); w.Code != want {
			t.Errorf("tenant acme, user %s: got status %d, want %d", user, w.Code, want)
		}
	}
	if served != 1 {
		t.Errorf("got %d requests served, want the one whose keys are equal", served)
	}
}
