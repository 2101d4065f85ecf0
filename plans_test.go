package slidegate_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/slidegate/slidegate"
	"github.com/slidegate/slidegate/internal/adapter"
	"github.com/slidegate/slidegate/internal/layer/coalesce"
	"github.com/slidegate/slidegate/internal/layer/failure"
	"github.com/slidegate/slidegate/internal/layer/refusals"
	"github.com/slidegate/slidegate/memstore"
	"github.com/slidegate/slidegate/store"
	"github.com/slidegate/slidegate/storetest"
)

// Plans share their counts whatever their quotas are, on both sides of 100 and in any order: limiters from With, the same over a
// layer, and limits given per call.
func TestPlansShareCountsAcross100(t *testing.T) {
	overStores(t, func(t *testing.T, st store.Store, _ *storetest.Clock) {
		for key, quotas := range map[string][]int64{"up": {60, 600, 20_000, 100, 101, 60}, "down": {20_000, 101, 100, 600, 60}} {
			first := newPerCall(t, st)
			var used int64
			for _, quota := range quotas {
				limit := slidegate.PerMinute(quota)
				plan, err := first.With(limit)
				if err != nil {
					t.Fatal(err)
				}
				over, err := adapter.Over(plan, func(s store.Store) (store.Store, error) { return batchOnly{s}, nil })
				if err != nil {
					t.Fatal(err)
				}
				for way, decide := range map[string]func() (slidegate.Decision, error){
					"With": func() (slidegate.Decision, error) { return plan.Allow(t.Context(), key) },
					"Over": func() (slidegate.Decision, error) { return over.Allow(t.Context(), key) },
					"For":  func() (slidegate.Decision, error) { return first.For(claim(limit, key, 1)).Allow(t.Context()) },
				} {
					used++
					if d, err := decide(); err != nil || !d.Allowed || d.Remaining != quota-used || d.LimitName != limit.String() {
						t.Errorf("%s: %v by %s: got %+v, %v; want %d left", key, limit, way, d, err, quota-used)
					}
				}
			}
		}
	})
}

// A plan of a smaller quota refuses what it must because of units charged under a larger one, and a plan of a larger one admits the rest.
func TestALargerPlanFillsASmallerOne(t *testing.T) {
	overStores(t, func(t *testing.T, st store.Store, _ *storetest.Clock) {
		free := newLimiter(t, st, slidegate.PerMinute(60))
		pro, err := free.With(slidegate.PerMinute(600))
		if err != nil {
			t.Fatal(err)
		}
		allow(t, free, "k", 60)
		if d := allow(t, pro, "k", 541); d.Allowed || d.Remaining != 540 {
			t.Errorf("541 more of 600: got %+v, want a refusal with 540 left", d)
		}
		if d := allow(t, pro, "k", 540); !d.Allowed {
			t.Errorf("540 more of 600: got %+v, want an admission", d)
		}
		if d := allow(t, free, "k", 1); d.Allowed || d.Remaining != 0 {
			t.Errorf("1 of 60 after 600: got %+v, want a refusal", d)
		}
	})
}

// A plan too large for a log that is named has counts of its own; one that names nothing shares them.
func TestAPlanOfAnyQuotaIsValid(t *testing.T) {
	limiter := newLimiter(t, newReference(), slidegate.PerMinute(60))
	if _, err := limiter.With(slidegate.PerMinute(1 << 50)); err != nil {
		t.Error(err)
	}
	if _, err := limiter.With(exact("", 20_000, time.Minute)); err == nil {
		t.Error("a named log of 20,000: got no error")
	}
}

// Limits returns limits as they were given, also those of plans.
func TestLimitsAreAsGiven(t *testing.T) {
	first := newLimiter(t, newReference(), slidegate.PerMinute(60))
	second, err := first.With(slidegate.PerMinute(600))
	if err != nil {
		t.Fatal(err)
	}
	if got := second.Limits()[0]; got != slidegate.PerMinute(600) {
		t.Errorf("got %v, want 600/1m as given", got)
	}
	if a, b := adapter.Bound(first)[0].Prefix(), adapter.Bound(second)[0].Prefix(); a != b {
		t.Errorf("60/1m counts at %q, and 600/1m at %q", a, b)
	}
}

// The label of a limit is its text as written. Unbind names the algorithm where an option implies it, and not otherwise.
func TestUnbind(t *testing.T) {
	for text, want := range map[string]string{
		"5/1m":                           "5/1m",
		"600/1m":                         "600/1m",
		"600/1m lease":                   "600/1m lease",
		"600/7s count-refused":           "600/7s count-refused",
		"5/1m segments=1":                "5/1m sliding-window",
		"5/1m segments=60 overlap=whole": "5/1m sliding-window segments=60 overlap=whole",
		"5/1m overlap=whole":             "5/1m sliding-window overlap=whole",
		"5/month":                        "5/month fixed-window zone=UTC",
		"50 in-flight ttl=30s":           "50 in-flight ttl=30s",
	} {
		bound, err := adapter.Bind("", slidegate.MustParseLimit(text))
		if err != nil || bound.Label() != text || adapter.Unbind(bound).String() != want {
			t.Errorf("%q has the label %q and is %q, want %q: %v", text, bound.Label(), adapter.Unbind(bound), want, err)
		}
		if again, err := adapter.Bind("", adapter.Unbind(bound)); err != nil || *again.Rule() != *bound.Rule() {
			t.Errorf("%q bound again is %+v, want %+v: %v", text, again.Rule(), bound.Rule(), err)
		}
	}
}

// layers returns several paths to one store.
func layers(t testing.TB, bottom store.Store) map[string]store.Store {
	coalesced := coalesce.New(bottom, coalesce.Options{})
	cached := refusals.New(coalesced, refusals.Options{})
	return map[string]store.Store{
		"the store": bottom, "coalesce": coalesced, "refusals over coalesce": cached,
		"failure over refusals": failure.New(cached, failure.Options{Local: memstore.NewDefault()}),
	}
}

// Two limiters whose limits differ but share their counts would refuse clients that are within both.
func TestNewRejectsSharedCounts(t *testing.T) {
	bucket := func(quota, burst int64) slidegate.Limit {
		return slidegate.Limit{Quota: quota, Window: time.Minute, Algorithm: slidegate.TokenBucket, Burst: burst}
	}
	for name, test := range map[string]struct {
		first, second []slidegate.Limit
		want          []string // in the error; nil if both limiters are valid
	}{
		"quotas": {limits(slidegate.PerMinute(100)), limits(slidegate.PerMinute(5)), []string{`"100/1m"`, `"5/1m"`}},
		"another spelling": {limits(slidegate.Limit{Quota: 500, Window: time.Minute, Algorithm: slidegate.SlidingWindow}),
			limits(slidegate.Limit{Quota: 5, Window: 60 * time.Second, Segments: 1}), []string{`"500/1m sliding-window"`, `"5/1m`}},
		"second of several":  {limits(slidegate.PerSecond(1), slidegate.PerHour(9)), limits(slidegate.PerMinute(2), slidegate.PerHour(8)), []string{`"9/1h"`, `"8/1h"`}},
		"logs":               {limits(exact("", 5, time.Hour)), limits(exact("", 6, time.Hour)), []string{"5/1h", "6/1h"}},
		"bursts":             {limits(bucket(10, 20)), limits(bucket(10, 30)), []string{"burst=20", "burst=30"}},
		"equal":              {limits(slidegate.PerMinute(5)), limits(slidegate.PerMinute(5)), nil},
		"default burst":      {limits(bucket(10, 10)), limits(bucket(10, 0)), nil},
		"windows":            {limits(slidegate.PerMinute(100)), limits(slidegate.PerHour(5)), nil},
		"algorithms":         {limits(slidegate.PerMinute(500)), limits(exact("", 5, time.Minute)), nil},
		"an algorithm named": {limits(slidegate.PerMinute(100)), limits(exact("", 5, time.Minute)), nil},
		"both sides of 100":  {limits(slidegate.PerMinute(60)), limits(slidegate.PerMinute(600)), []string{`"60/1m"`, `"600/1m"`}},
		"one has a name":     {limits(slidegate.PerMinute(100)), limits(slidegate.Limit{Name: "login", Quota: 5, Window: time.Minute}), nil},
		"the same name": {limits(slidegate.Limit{Name: "api", Quota: 9, Window: time.Minute}),
			limits(slidegate.Limit{Name: "api", Quota: 5, Window: time.Minute}), nil},
	} {
		bottom := newReference()
		stores := layers(t, bottom)
		newLimiter(t, stores["coalesce"], test.first...)
		for way, st := range stores {
			_, err := slidegate.New(st, test.second...)
			if test.want == nil {
				if err != nil {
					t.Errorf("%s, over %s: %v", name, way, err)
				}
				continue
			}
			if !errors.Is(err, slidegate.ErrConflict) {
				t.Errorf("%s, over %s: %v, want ErrConflict", name, way, err)
				continue
			}
			for _, want := range append(test.want, "Name") {
				if !strings.Contains(err.Error(), want) {
					t.Errorf("%s, over %s: %q does not contain %s", name, way, err, want)
				}
			}
		}
	}
}

func limits(limits ...slidegate.Limit) []slidegate.Limit { return limits }

// Plans and limits per call share counts as intended; other namespaces and other stores do not.
func TestSharedCountsOnPurpose(t *testing.T) {
	overStores(t, func(t *testing.T, store store.Store, clock *storetest.Clock) {
		free := newLimiter(t, store, slidegate.PerMinute(5))
		pro, err := free.With(slidegate.PerMinute(100))
		if err != nil {
			t.Fatal(err)
		}
		allow(t, free, "k", 3)
		if n := used(t, pro, "k"); n != 3 {
			t.Errorf("used %d under the other plan, want 3", n)
		}
		perCall := newPerCall(t, store)
		if d, err := perCall.For(slidegate.Claim{Limit: slidegate.PerMinute(7), Key: "k"}).Allow(t.Context()); err != nil || d.Remaining != 3 {
			t.Errorf("a limit per call: got %+v, %v, want Remaining 3", d, err)
		}
		if n := usedOf(t, perCall, slidegate.PerMinute(9), "k"); n != 4 {
			t.Errorf("used %d by a claim, want 4", n)
		}
		if _, err := slidegate.New(slidegate.Namespace(store, "other"), limits(slidegate.PerMinute(6))...); err != nil {
			t.Errorf("another namespace: %v", err)
		}
		if _, err := slidegate.New(storetest.NewReference(clock), slidegate.PerMinute(6)); err != nil {
			t.Errorf("another store: %v", err)
		}
	})
}

// A limiter that could not be created leaves nothing behind.
func TestRejectedLimitsAreNotDeclared(t *testing.T) {
	st := newReference()
	newLimiter(t, st, slidegate.PerMinute(100))
	if _, err := slidegate.New(st, slidegate.PerHour(10), slidegate.PerMinute(5)); !errors.Is(err, slidegate.ErrConflict) {
		t.Fatalf("got %v, want ErrConflict", err)
	}
	newLimiter(t, st, slidegate.PerHour(20))
}
