package slidegate_test

import (
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/slidegate/slidegate"
	"github.com/slidegate/slidegate/internal/adapter"
	"github.com/slidegate/slidegate/rule"
	"github.com/slidegate/slidegate/store"
	"github.com/slidegate/slidegate/storetest"
)

// A limit given per call is bound once, because stores cache what they know about a limit by its identity.
func TestLimitsAreBoundOnce(t *testing.T) {
	store := &recorder{Store: newReference()}
	limit := slidegate.PerMinute(10)
	limiter := newLimiter(t, store, limit, slidegate.PerHour(100))
	other, err := limiter.With(limit)
	if err != nil {
		t.Fatal(err)
	}
	allow(t, limiter, "k", 1)
	allow(t, other, "k", 1)
	for range 2 {
		if _, err := other.For(claim(limit, "k", 1)).Allow(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	requests := store.take()
	for i, request := range requests {
		if bound := request.Charges[0].Limit; bound != requests[0].Charges[0].Limit {
			t.Errorf("request %d has a different binding of %v", i, bound.Label())
		}
	}
	if len(requests) != 4 {
		t.Errorf("got %d requests, want 4", len(requests))
	}
}

// Any number of limits can be given per call: those that are no longer cached still count.
func TestMoreLimitsThanAreCached(t *testing.T) {
	const many = 4096 + 100
	limiter := newPerCall(t, newReference())
	for round := range int64(2) {
		for i := range many {
			limit := slidegate.Limit{Name: fmt.Sprint(i), Quota: 10, Window: time.Minute}
			d, err := limiter.For(claim(limit, "k", 1)).Allow(t.Context())
			if err != nil || !d.Allowed || d.LimitName != limit.Name || d.Remaining != 9-round {
				t.Fatalf("limit %d, round %d: got %+v, %v, want allowed by the limit %q with %d left", i, round, d, err, limit.Name, 9-round)
			}
		}
	}
}

// Many goroutines that use the same new limits concurrently agree on the bindings, and are admitted no more than the quota.
func TestConcurrentBinding(t *testing.T) {
	const workers, limits, quota = 8, 40, 20
	st := &recorder{Store: newMemory(t, storetest.NewClock(noon))}
	limiter := newPerCall(t, st)
	var mu sync.Mutex
	admitted := map[int]int64{}
	var wg sync.WaitGroup
	for worker := range workers {
		wg.Go(func() {
			for i := range limits * quota {
				n := (i + worker) % limits
				limit := slidegate.Limit{Name: fmt.Sprint(n), Quota: quota, Window: time.Hour}
				d, err := limiter.For(claim(limit, "k", 1)).Allow(t.Context())
				if err != nil {
					t.Error(err)
					return
				}
				mu.Lock()
				admitted[n] += d.Granted
				mu.Unlock()
			}
		})
	}
	wg.Wait()
	for n := range limits {
		if admitted[n] != quota {
			t.Errorf("limit %d admitted %d, want %d", n, admitted[n], quota)
		}
	}
	bound := map[*store.Limit]bool{}
	for _, request := range st.take() {
		bound[request.Charges[0].Limit] = true
	}
	if len(bound) != limits {
		t.Errorf("got %d bindings, want %d", len(bound), limits)
	}
}

func TestBind(t *testing.T) {
	limit := slidegate.Limit{Name: "api", Quota: 10, Window: time.Minute, Algorithm: slidegate.SlidingWindow}
	a, err := adapter.Bind("shop", limit)
	if err != nil {
		t.Fatal(err)
	}
	if adapter.Unbind(a) != limit || a.Namespace() != "shop" || a.Label() != "api" || a.Rule().Window != rule.Micros(time.Minute.Microseconds()) {
		t.Errorf("bound %v in %q as %q, %+v, want %v in \"shop\" as \"api\", with a window of a minute",
			adapter.Unbind(a), a.Namespace(), a.Label(), a.Rule(), limit)
	}
	b, err := adapter.Bind("shop", limit)
	if err != nil || b.ID() == a.ID() || b.Prefix() != a.Prefix() {
		t.Errorf("bound again: IDs %d and %d, prefixes %q and %q, %v", a.ID(), b.ID(), a.Prefix(), b.Prefix(), err)
	}
	c, err := adapter.Bind("sho", slidegate.Limit{Name: "papi", Quota: 10, Window: time.Minute, Algorithm: slidegate.SlidingWindow})
	if err != nil || strings.HasPrefix(c.Prefix(), a.Prefix()) || strings.HasPrefix(a.Prefix(), c.Prefix()) {
		t.Errorf("prefixes %q and %q, %v", a.Prefix(), c.Prefix(), err)
	}
	if _, err := adapter.Bind("", slidegate.Limit{}); err == nil {
		t.Error("got no error for the zero limit")
	}
}

// Changing what varies between plans (quota, burst, overlap, whether refusals count) keeps the existing counts; another name
// or shape has its own.
func TestWithSharesCountsByNameAndShape(t *testing.T) {
	limit := slidegate.Limit{Name: "api", Quota: 10, Window: time.Minute, Segments: 2}
	change := func(change func(l *slidegate.Limit)) slidegate.Limit {
		changed := limit
		change(&changed)
		return changed
	}
	for name, test := range map[string]struct {
		limit  slidegate.Limit
		shared bool
	}{
		"the same":      {limit, true},
		"quota":         {change(func(l *slidegate.Limit) { l.Quota = 100 }), true},
		"less quota":    {change(func(l *slidegate.Limit) { l.Quota = 5 }), true},
		"overlap":       {change(func(l *slidegate.Limit) { l.Overlap = slidegate.OverlapWhole }), true},
		"count refused": {change(func(l *slidegate.Limit) { l.CountRefused = true }), true},
		"name":          {change(func(l *slidegate.Limit) { l.Name = "web" }), false},
		"no name":       {change(func(l *slidegate.Limit) { l.Name = "" }), false},
		"window":        {change(func(l *slidegate.Limit) { l.Window = time.Hour }), false},
		"segments":      {change(func(l *slidegate.Limit) { l.Segments = 3 }), false},
		"anchor":        {change(func(l *slidegate.Limit) { l.Anchor = slidegate.AnchorFirst }), false},
		"algorithm":     {exact("api", 10, time.Minute), false},
	} {
		t.Run(name, func(t *testing.T) {
			overStores(t, func(t *testing.T, store store.Store, _ *storetest.Clock) {
				before := newLimiter(t, store, limit)
				after, err := before.With(test.limit)
				if err != nil {
					t.Fatal(err)
				}
				allow(t, before, "k", 4)
				want := int64(0)
				if test.shared {
					want = 4
				}
				if got := used(t, after, "k"); got != want {
					t.Errorf("used %d after the change, want %d", got, want)
				}
				if got := before.Limits(); len(got) != 1 || got[0] != limit {
					t.Errorf("the limiter's own limits changed to %v", got)
				}
			})
		})
	}
}

func TestWithRejectsWhatNewRejects(t *testing.T) {
	limiter := newLimiter(t, singleCharge{newReference()}, slidegate.PerMinute(1))
	if _, err := limiter.With(slidegate.Limit{}); err == nil {
		t.Error("got no error for the zero limit")
	}
	if _, err := limiter.With(slidegate.PerMinute(1), slidegate.PerHour(1)); err == nil {
		t.Error("got no error for two limits on a store that takes one")
	}
}

// Limits with the same address share their counts: the limiter's own limits, those of With, and those of For.
func TestAllWaysToOneAddressShareCounts(t *testing.T) {
	limit := slidegate.Limit{Name: "api", Quota: 10, Window: time.Minute}
	overStores(t, func(t *testing.T, store store.Store, _ *storetest.Clock) {
		in := func(namespace string) *slidegate.Limiter {
			limiter, err := slidegate.New(slidegate.Namespace(store, namespace), limit)
			if err != nil {
				t.Fatal(err)
			}
			return limiter
		}
		first, second, other := in("shop"), in("shop"), in("blog")
		with, err := first.With(limit)
		if err != nil {
			t.Fatal(err)
		}
		for _, decide := range []func() (slidegate.Decision, error){
			func() (slidegate.Decision, error) { return first.Allow(t.Context(), "k") },
			func() (slidegate.Decision, error) { return second.AllowN(t.Context(), "k", 1) },
			func() (slidegate.Decision, error) { return with.Allow(t.Context(), "k") },
			func() (slidegate.Decision, error) { return first.For(claim(limit, "k", 1)).Allow(t.Context()) },
			func() (slidegate.Decision, error) {
				return with.For(claim(limit, "k", 1)).InGroup("").Allow(t.Context())
			},
		} {
			if d, err := decide(); err != nil || !d.Allowed {
				t.Fatalf("got %+v, %v, want it allowed", d, err)
			}
		}
		for name, limiter := range map[string]*slidegate.Limiter{"first": first, "second": second, "with": with} {
			if got := used(t, limiter, "k"); got != 5 {
				t.Errorf("%s: used %d, want 5", name, got)
			}
		}
		if got := used(t, other, "k"); got != 0 {
			t.Errorf("used %d in another namespace, want 0", got)
		}
	})
}

// No two addresses have the same encoding, however their parts are split.
func TestAddressesAreUnambiguous(t *testing.T) {
	type place struct{ namespace, name, group, key string }
	places := []place{
		{"", "", "", ""}, {"ab", "", "", ""}, {"", "ab", "", ""}, {"", "", "ab", ""}, {"", "", "", "ab"},
		{"a", "b", "", ""}, {"a", "", "b", ""}, {"a", "", "", "b"}, {"", "a", "b", ""}, {"", "a", "", "b"}, {"", "", "a", "b"},
		{"", "", "", "\x02ab"}, {"", "", "\x02ab", ""}, {"", "", "", "\x00"}, {"", "", "", "\xff"}, {"", "", "", "\xfe"},
	}
	overStores(t, func(t *testing.T, store store.Store, _ *storetest.Clock) {
		for i, p := range places {
			limiter, err := slidegate.New(slidegate.Namespace(store, p.namespace))
			if err != nil {
				t.Fatal(err)
			}
			limit := slidegate.Limit{Name: p.name, Quota: 1000, Window: time.Minute}
			d, err := limiter.For(claim(limit, p.key, int64(i+1))).InGroup(p.group).Allow(t.Context())
			if err != nil || d.Remaining != 1000-int64(i+1) {
				t.Errorf("%q: %d left before its first request, %v", p, d.Remaining, err)
			}
		}
	})
}
