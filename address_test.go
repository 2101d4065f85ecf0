package slidegate_test

import (
	"testing"
	"time"

	"github.com/slidegate/slidegate"
	"github.com/slidegate/slidegate/store"
	"github.com/slidegate/slidegate/storetest"
)

// Changing what varies between plans (quota, burst, overlap, whether denials count) keeps the existing counts; another name
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
		"the same":     {limit, true},
		"quota":        {change(func(l *slidegate.Limit) { l.Quota = 100 }), true},
		"less quota":   {change(func(l *slidegate.Limit) { l.Quota = 5 }), true},
		"overlap":      {change(func(l *slidegate.Limit) { l.Overlap = slidegate.OverlapWhole }), true},
		"count denied": {change(func(l *slidegate.Limit) { l.CountDenied = true }), true},
		"name":         {change(func(l *slidegate.Limit) { l.Name = "web" }), false},
		"no name":      {change(func(l *slidegate.Limit) { l.Name = "" }), false},
		"window":       {change(func(l *slidegate.Limit) { l.Window = time.Hour }), false},
		"segments":     {change(func(l *slidegate.Limit) { l.Segments = 3 }), false},
		"anchor":       {change(func(l *slidegate.Limit) { l.Anchor = slidegate.AnchorFirst }), false},
		"algorithm":    {exact("api", 10, time.Minute), false},
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
			limiter, err := slidegate.NewWithOptions(store, slidegate.Options{Namespace: namespace, Limits: []slidegate.Limit{limit}})
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
			limiter, err := slidegate.NewPerCall(store, p.namespace)
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
