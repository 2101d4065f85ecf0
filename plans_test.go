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

func TestPlansCountLikeTheLimiter(t *testing.T) {
	parse := slidegate.MustParseLimit
	for _, test := range []struct{ limit, base, want string }{
		{"600/1m", "60/1m", "600/1m sliding-log"},
		{"60/1m", "600/1m", "60/1m sliding-window"},
		{"600/1m", "60/1m segments=1", "600/1m sliding-window"},
		{"600/1m", "60/1m token-bucket burst=9", "600/1m token-bucket"},
		{"600/1m count-refused name=x", "60/1m", `600/1m sliding-log count-refused name="x"`},
		{"600/1m", "60/1h", "600/1m"},
		{"600/1m fixed-window", "60/1m", "600/1m fixed-window"},
		{"600/1m segments=6", "60/1m", "600/1m segments=6"},
		{"600/1m overlap=up", "60/1m", "600/1m sliding-window"},
		{"600/1m anchor=first", "60/1m", "600/1m anchor=first"},
		{"600/month", "60/month", "600/month"},
		{"600/30s", "60 in-flight ttl=30s", "600/30s"},
	} {
		if got := adapter.Like(parse(test.limit), parse(test.base)).String(); got != test.want {
			t.Errorf("%q like %q is %q, want %q", test.limit, test.base, got, test.want)
		}
	}
	if got := adapter.Like(slidegate.PerMinute(600), slidegate.Limit{Quota: -1, Window: time.Minute}); got != slidegate.PerMinute(600) {
		t.Errorf("like an invalid limit: got %v", got)
	}
}

// Plans of one limiter share their counts although their quotas lie on both sides of 100, in either order, and through a
// layer; their labels are as written.
func TestWithKeepsTheAlgorithm(t *testing.T) {
	overStores(t, func(t *testing.T, st store.Store, _ *storetest.Clock) {
		for _, quotas := range [][2]int64{{60, 600}, {600, 60}} {
			first := newLimiter(t, st, slidegate.PerMinute(quotas[0]))
			second, err := first.With(slidegate.PerMinute(quotas[1]))
			if err != nil {
				t.Fatal(err)
			}
			third, err := second.With(slidegate.PerMinute(quotas[0]), slidegate.PerHour(600))
			if err != nil {
				t.Fatal(err)
			}
			over, err := adapter.Over(second, func(s store.Store) (store.Store, error) { return batchOnly{s}, nil })
			if err != nil {
				t.Fatal(err)
			}
			for i, limiter := range []*slidegate.Limiter{first, second, third, over} {
				d := allow(t, limiter, "k", 1)
				if want := []string{"60/1m", "600/1m"}; !d.Allowed || d.LimitName != want[0] && d.LimitName != want[1] {
					t.Errorf("%v: limiter %d: got %+v, want it allowed by one of %v", quotas, i, d, want)
				}
			}
			for i, limiter := range []*slidegate.Limiter{first, second, over} {
				if n := used(t, limiter, "k"); n != 4 {
					t.Errorf("%v: limiter %d: used %d, want 4", quotas, i, n)
				}
			}
			if again, err := first.With(slidegate.PerMinute(quotas[1])); err != nil || adapter.Bound(again)[0] != adapter.Bound(second)[0] {
				t.Errorf("%v: With binds the same plan twice: %v", quotas, err)
			}
		}
	})
}

// If the other plans' algorithm does not support a plan, the error says where the algorithm comes from.
func TestWithErrorNamesTheBase(t *testing.T) {
	limiter := newLimiter(t, newReference(), slidegate.PerMinute(60))
	_, err := limiter.With(slidegate.PerMinute(20_000))
	if err == nil || !strings.HasPrefix(err.Error(), "slidegate: invalid limit: quota:") ||
		!strings.Contains(err.Error(), `it counts like "60/1m sliding-log"`) {
		t.Errorf("got %v, want an error about the quota that names the base", err)
	}
	for _, limit := range []slidegate.Limit{
		{Quota: 20_000, Window: time.Minute, Algorithm: slidegate.SlidingWindow}, {Name: "pro", Quota: 20_000, Window: time.Minute},
	} {
		if _, err := limiter.With(limit); err != nil {
			t.Errorf("%v: %v", limit, err)
		}
	}
}

// The result of Limits is enough to make an equal limiter.
func TestLimitsOfAPlanAreComplete(t *testing.T) {
	first := newLimiter(t, newReference(), slidegate.PerMinute(60))
	second, err := first.With(slidegate.PerMinute(600))
	if err != nil {
		t.Fatal(err)
	}
	again := newLimiter(t, newReference(), second.Limits()...)
	if got, want := adapter.Bound(again)[0].Prefix(), adapter.Bound(second)[0].Prefix(); got != want {
		t.Errorf("the new limiter counts at %q, want %q", got, want)
	}
	if got := first.Limits()[0]; got != slidegate.PerMinute(60) {
		t.Errorf("got %v, want 60/1m as given", got)
	}
}

// The label of a limit is its text as written; Unbind returns it with the algorithm resolved.
func TestBindResolves(t *testing.T) {
	for text, want := range map[string]string{
		"5/1m":                 "5/1m sliding-log",
		"600/1m":               "600/1m sliding-window",
		"5/1m segments=1":      "5/1m sliding-window",
		"5/1m overlap=whole":   "5/1m sliding-window overlap=whole",
		"5/month":              "5/month fixed-window zone=UTC",
		"50 in-flight ttl=30s": "50 in-flight ttl=30s",
	} {
		bound, err := adapter.Bind("", slidegate.MustParseLimit(text))
		if err != nil || bound.Label() != text || adapter.Unbind(bound).String() != want {
			t.Errorf("%q has the label %q and is %q, want %q: %v", text, bound.Label(), adapter.Unbind(bound), want, err)
		}
		if again, err := adapter.Bind("", adapter.Unbind(bound)); err != nil || *again.Rule() != *bound.Rule() {
			t.Errorf("%q bound again is %+v, want %+v: %v", text, again.Rule(), bound.Rule(), err)
		}
	}
	plan, err := slidegate.MustNew(newReference(), slidegate.PerMinute(60)).With(slidegate.PerMinute(600))
	if err != nil {
		t.Fatal(err)
	}
	like := adapter.Bound(plan)[0]
	if like.Label() != "600/1m" || adapter.Unbind(like).String() != "600/1m sliding-log" {
		t.Errorf("600/1m like 60/1m has the label %q and is %q", like.Label(), adapter.Unbind(like))
	}
}

// A plan's rate limit does not count like an in-flight limit whose time to live equals the rate limit's window.
func TestPlansNextToSlots(t *testing.T) {
	slots := slidegate.Slots(5, time.Minute)
	for _, own := range [][]slidegate.Limit{{slots, slidegate.PerMinute(60)}, {slidegate.PerMinute(60), slots}} {
		free := newLimiter(t, newMemory(t, storetest.NewClock(0)), own...)
		pro, err := free.With(slots, slidegate.PerMinute(600))
		if err != nil {
			t.Fatal(err)
		}
		if got := pro.Limits()[1].Algorithm; got != slidegate.SlidingLog {
			t.Errorf("next to %v, 600/1m is a %v, want the sliding-log that 60/1m is", own, got)
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
		"quotas":             {limits(slidegate.PerMinute(100)), limits(slidegate.PerMinute(5)), []string{`"100/1m"`, `"5/1m"`}},
		"another spelling":   {limits(slidegate.PerMinute(500)), limits(slidegate.Limit{Quota: 5, Window: 60 * time.Second, Segments: 1}), []string{`"500/1m"`, `"5/1m`}},
		"an algorithm named": {limits(slidegate.PerMinute(100)), limits(exact("", 5, time.Minute)), []string{`"100/1m"`, `"5/1m sliding-log"`}},
		"second of several":  {limits(slidegate.PerSecond(1), slidegate.PerHour(9)), limits(slidegate.PerMinute(2), slidegate.PerHour(8)), []string{`"9/1h"`, `"8/1h"`}},
		"logs":               {limits(exact("", 5, time.Hour)), limits(exact("", 6, time.Hour)), []string{"5/1h", "6/1h"}},
		"bursts":             {limits(bucket(10, 20)), limits(bucket(10, 30)), []string{"burst=20", "burst=30"}},
		"equal":              {limits(slidegate.PerMinute(5)), limits(slidegate.PerMinute(5)), nil},
		"default burst":      {limits(bucket(10, 10)), limits(bucket(10, 0)), nil},
		"windows":            {limits(slidegate.PerMinute(100)), limits(slidegate.PerHour(5)), nil},
		"algorithms":         {limits(slidegate.PerMinute(500)), limits(exact("", 5, time.Minute)), nil},
		"both sides of 100":  {limits(slidegate.PerMinute(60)), limits(slidegate.PerMinute(600)), nil},
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
