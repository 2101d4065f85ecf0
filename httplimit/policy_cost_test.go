package httplimit

import (
	"errors"
	"net/http"
	"strings"
	"testing"

	"github.com/slidegate/slidegate"
	"github.com/slidegate/slidegate/policy"
)

func mustSetCost(t *testing.T, r *http.Request, cost int64, policies ...string) {
	t.Helper()
	if err := SetCost(r, cost, policies...); err != nil {
		t.Error(err)
	}
}

// leftOf returns what a client has left of a policy.
func (p *play) leftOf(t *testing.T, name, key string) int64 {
	t.Helper()
	v, err := p.limits.Peek(t.Context(), name, key)
	if err != nil {
		t.Fatal(err)
	}
	return v.Decision.Remaining
}

// priced are policies that count tokens and dollars, with estimates of 100 and 30.
func priced(seen func(name string, response Response)) []Policy {
	price := func(name string, estimate int64) Policy {
		return Policy{
			Name: name, Limits: []slidegate.Limit{slidegate.PerDay(10_000)}, Key: ByHeader("X-User"),
			Cost: func(*http.Request) int64 { return estimate },
			CostAfter: func(_ *http.Request, response Response) int64 {
				seen(name, response)
				return response.Cost
			},
			Allow: policy.List{Keys: []string{"staff"}},
		}
	}
	return []Policy{price("tokens", 100), price("usd", 30), {Name: "requests", Limits: []slidegate.Limit{slidegate.PerDay(1000)}}}
}

// A handler sets the cost of each policy by its name, and a CostAfter sees whether it did.
func TestSetCostOfPolicies(t *testing.T) {
	for name, test := range map[string]struct {
		handler     func(*testing.T, *http.Request)
		tokens, usd Response
	}{
		"one":  {func(t *testing.T, r *http.Request) { mustSetCost(t, r, 500, "tokens") }, Response{Cost: 500, CostSet: true}, Response{Cost: 30}},
		"none": {func(*testing.T, *http.Request) {}, Response{Cost: 100}, Response{Cost: 30}},
		"all":  {func(t *testing.T, r *http.Request) { mustSetCost(t, r, 7) }, Response{Cost: 7, CostSet: true}, Response{Cost: 7, CostSet: true}},
		"two":  {func(t *testing.T, r *http.Request) { mustSetCost(t, r, 8, "usd", "tokens") }, Response{Cost: 8, CostSet: true}, Response{Cost: 8, CostSet: true}},
		"the last counts": {func(t *testing.T, r *http.Request) {
			mustSetCost(t, r, 9)
			mustSetCost(t, r, 0, "usd")
		}, Response{Cost: 9, CostSet: true}, Response{CostSet: true}},
		"mistakes": {func(t *testing.T, r *http.Request) {
			for _, wrong := range []error{SetCost(r, -5), SetCost(r, -1, "tokens"), SetCost(r, 1<<60, "tokens")} {
				if !errors.Is(wrong, slidegate.ErrCost) {
					t.Errorf("a cost out of range: %v, want ErrCost", wrong)
				}
			}
			for _, wrong := range []error{SetCost(r, 5, "token"), SetCost(r, 5, "tokens", "eur"), SetCost(r, 5, "requests")} {
				if wrong == nil || !strings.Contains(wrong.Error(), "no policy") {
					t.Errorf("a policy that is not there: %v, want an error", wrong)
				}
			}
		}, Response{Cost: 100}, Response{Cost: 30}},
	} {
		got := map[string]Response{}
		p := newPlay(t, Options{Policies: priced(func(name string, response Response) { got[name] = response })}, func(_ http.ResponseWriter, r *http.Request) {
			test.handler(t, r)
		})
		r := newRequestFrom("192.0.2.1")
		r.Header.Set("X-User", "ann")
		p.do(r)
		for policy, want := range map[string]Response{"tokens": test.tokens, "usd": test.usd} {
			if want.Status = 200; got[policy] != want {
				t.Errorf("%s, %s: got %+v, want %+v", name, policy, got[policy], want)
			}
			if left := p.leftOf(t, policy, "ann"); left != 10_000-want.Cost {
				t.Errorf("%s, %s: %d left, want %d", name, policy, left, 10_000-want.Cost)
			}
		}
	}
}

// A handler need not know whether its client is exempt.
func TestSetCostOfExemptClient(t *testing.T) {
	p := newPlay(t, Options{Policies: priced(func(string, Response) { t.Error("CostAfter was called for an exempt client") })[:2]},
		func(_ http.ResponseWriter, r *http.Request) {
			mustSetCost(t, r, 5)
			mustSetCost(t, r, 5, "usd")
			if SetCost(r, 5, "eur") == nil {
				t.Error("SetCost accepted a policy that is not there")
			}
		})
	r := newRequestFrom("192.0.2.1")
	r.Header.Set("X-User", "staff")
	if w := p.do(r); w.Code != 200 || p.served != 1 {
		t.Errorf("got status %d, want 200", w.Code)
	}
}
