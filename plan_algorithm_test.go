package slidegate_test

import (
	"strings"
	"testing"
	"time"

	"github.com/slidegate/slidegate"
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
		{"600/1m count-denied name=x", "60/1m", `600/1m sliding-log count-denied name="x"`},
		{"600/1m", "60/1h", "600/1m"},
		{"600/1m fixed-window", "60/1m", "600/1m fixed-window"},
		{"600/1m segments=6", "60/1m", "600/1m segments=6"},
		{"600/1m overlap=up", "60/1m", "600/1m sliding-window"},
		{"600/1m anchor=first", "60/1m", "600/1m anchor=first"},
		{"600/month", "60/month", "600/month"},
		{"600/30s", "60 in-flight ttl=30s", "600/30s"},
	} {
		if got := parse(test.limit).Like(parse(test.base)).String(); got != test.want {
			t.Errorf("%q like %q is %q, want %q", test.limit, test.base, got, test.want)
		}
	}
	if got := slidegate.PerMinute(600).Like(slidegate.Limit{Quota: -1, Window: time.Minute}); got != slidegate.PerMinute(600) {
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
			over, err := second.Over(func(s store.Store) (store.Store, error) { return batchOnly{s}, nil })
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
			if again, err := first.With(slidegate.PerMinute(quotas[1])); err != nil || again.Bound()[0] != second.Bound()[0] {
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
	if got, want := again.Bound()[0].Prefix(), second.Bound()[0].Prefix(); got != want {
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
		bound, err := slidegate.Bind("", slidegate.MustParseLimit(text))
		if err != nil || bound.Label() != text || slidegate.Unbind(bound).String() != want {
			t.Errorf("%q has the label %q and is %q, want %q: %v", text, bound.Label(), slidegate.Unbind(bound), want, err)
		}
		if again, err := slidegate.Bind("", slidegate.Unbind(bound)); err != nil || *again.Rule() != *bound.Rule() {
			t.Errorf("%q bound again is %+v, want %+v: %v", text, again.Rule(), bound.Rule(), err)
		}
	}
	like, err := slidegate.BindLike("", slidegate.PerMinute(600), slidegate.PerMinute(60))
	if err != nil || like.Label() != "600/1m" || slidegate.Unbind(like).String() != "600/1m sliding-log" {
		t.Errorf("600/1m like 60/1m has the label %q and is %q: %v", like.Label(), slidegate.Unbind(like), err)
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
