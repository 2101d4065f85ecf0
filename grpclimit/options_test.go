package grpclimit_test

import (
	"strings"
	"testing"
	"time"

	"github.com/slidegate/slidegate"
	"github.com/slidegate/slidegate/grpclimit"
	"github.com/slidegate/slidegate/store"
)

func TestBadOptions(t *testing.T) {
	limited, bare := newLimiter(t, nil, "1/1m"), newLimiter(t, nil)
	several := newFailingStore(t, failingStore{}) // decides at most 8 together
	five := parse("1/1m name=1", "1/1m name=2", "1/1m name=3", "1/1m name=4", "1/1m name=5")
	for _, c := range []struct {
		name     string
		limiter  *slidegate.Limiter
		timeout  time.Duration
		policies []grpclimit.Policy
		want     string
	}{
		{"no limit", bare, 0, nil, `grpclimit: policy "": limits: invalid limit: no limits`},
		{"failure", limited, 0, []grpclimit.Policy{{Failure: 9}}, "failure: unknown mode 9"},
		{"timeout", several, 48 * time.Hour, []grpclimit.Policy{{Limits: five}}, "grpclimit: policy: stack: Timeout: must be up to 24h"},
		{"no name", limited, 0, []grpclimit.Policy{{Name: "a"}, {}}, "grpclimit: policy: name: missing"},
		{"name twice", limited, 0, []grpclimit.Policy{{Name: "a"}, {Name: "a"}}, `grpclimit: policy: name: duplicate "a"`},
		{"wrong limit", bare, 0, []grpclimit.Policy{{Name: "a", Limits: []slidegate.Limit{{Window: time.Minute}}}}, `grpclimit: policy "a": limits: slidegate: invalid limit`},
		{"limit twice", bare, 0, []grpclimit.Policy{{Limits: parse("1/1m", "2/1m")}}, `grpclimit: policy "": limits: slidegate: one address`},
		{"no slash", limited, 0, []grpclimit.Policy{{Match: "test.Echo/Say"}}, `match: "test.Echo/Say": must be /package.Service/Method`},
		{"no method", limited, 0, []grpclimit.Policy{{Match: "/test.Echo/"}}, "match"},
		{"no service", limited, 0, []grpclimit.Policy{{Match: "//Say"}}, "match"},
		{"one word", limited, 0, []grpclimit.Policy{{Match: "/test.Echo"}}, "match"},
		{"three words", limited, 0, []grpclimit.Policy{{Match: "/test.Echo/Say/"}}, "match"},
		{"a star among letters", limited, 0, []grpclimit.Policy{{Match: "/test.Echo/S*"}}, "match"},
		{"a star for a service", limited, 0, []grpclimit.Policy{{Match: "/*/Say"}}, "match"},
		{"more than the store decides at once", several, 0,
			[]grpclimit.Policy{{Name: "a", Limits: five}, {Name: "b", Match: say, Limits: five}}, `grpclimit: policies ["a" "b"]: policy: not supported: 10 limits at once`},
		{"names that run together", bare, 0, []grpclimit.Policy{{Name: "a", Limits: parse("1/1m name=b/c")},
			{Name: "a/b", Limits: parse("2/1m name=c")}}, `grpclimit: policy: name: "a" and "a/b"`},
	} {
		_, err := grpclimit.New(c.limiter, grpclimit.Options{Timeout: c.timeout, Policies: c.policies})
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: New returned %v, want %q", c.name, err, c.want)
		}
		client, err := grpclimit.NewClient(c.limiter, grpclimit.ClientOptions{Timeout: c.timeout, Policies: c.policies})
		if err == nil || !strings.Contains(err.Error(), c.want) || client != nil {
			t.Errorf("%s: NewClient returned %v, want %q", c.name, err, c.want)
		}
	}
	if _, err := grpclimit.New(nil, grpclimit.Options{}); err == nil || !strings.Contains(err.Error(), "grpclimit: limiter: must not be nil") {
		t.Errorf("New without a limiter returned %v, want %q", err, "grpclimit: limiter: must not be nil")
	}
}

// Options that must be accepted, because no call has all of these limits together.
func TestGoodOptions(t *testing.T) {
	several := newFailingStore(t, failingStore{}) // decides at most 8 together
	five := parse("1/1m name=1", "1/1m name=2", "1/1m name=3", "1/1m name=4", "1/1m name=5")
	for name, policies := range map[string][]grpclimit.Policy{
		"different methods": {{Name: "a", Match: chat, Limits: five}, {Name: "b", Match: say, Limits: five}},
		"a shadow":          {{Name: "a", Limits: five, Shadow: true}, {Name: "b", Limits: five}},
	} {
		if _, err := grpclimit.New(several, grpclimit.Options{Policies: policies}); err != nil {
			t.Errorf("%s: New returned %v, want no error", name, err)
		}
	}
}

func TestClientWithoutLimiter(t *testing.T) {
	for name, opts := range map[string]grpclimit.ClientOptions{
		"policies": {Policies: []grpclimit.Policy{{}}},
		"failure":  {Failure: store.FailClosed},
		"timeout":  {Timeout: time.Second},
		"max obey": {MaxObey: -time.Second},
	} {
		if client, err := grpclimit.NewClient(nil, opts); err == nil || client != nil {
			t.Errorf("%s: NewClient returned %v, %v; want nil and an error", name, client, err)
		}
	}
	if _, err := grpclimit.NewClient(nil, grpclimit.ClientOptions{Wait: true}); err != nil {
		t.Error(err)
	}
}
