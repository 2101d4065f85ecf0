package slidegate_test

import (
	"math"
	"testing"
	"time"

	"github.com/slidegate/slidegate"
	"github.com/slidegate/slidegate/internal/adapter"
	"github.com/slidegate/slidegate/rule"
	"github.com/slidegate/slidegate/store"
	"github.com/slidegate/slidegate/storetest"
)

func TestShare(t *testing.T) {
	for _, test := range []struct {
		limit   string
		percent int
		want    string
	}{
		{"600/1m", 90, "540/1m"}, {"600/1m", 100, "600/1m"}, {"12/1m", 90, "10/1m"}, {"19/1m", 90, "17/1m"}, {"1/1m", 60, "1/1m"}, {"3/1m", 1, "1/1m"},
		{"99/1h sliding-log name=a", 60, `59/1h sliding-log name="a"`}, {"50 in-flight ttl=30s", 60, "30 in-flight ttl=30s"},
		{"1000/month zone=Europe/Berlin", 5, "50/month zone=Europe/Berlin"},
		{"10/1s token-bucket burst=45", 90, "10/1s token-bucket burst=40"}, {"10/1s token-bucket", 60, "10/1s token-bucket burst=6"},
		{"10/1s token-bucket", 100, "10/1s token-bucket"}, {"9007199254740991/1d", 90, "8106479329266891/24h"},
		{"600/1m", 0, "6/1m"}, {"600/1m", -5, "6/1m"}, {"600/1m", 200, "600/1m"},
	} {
		if got := slidegate.MustParseLimit(test.limit).Share(test.percent).String(); got != test.want {
			t.Errorf("%d %% of %s: got %s, want %s", test.percent, test.limit, got, test.want)
		}
	}
	for _, quota := range []int64{0, -1, math.MinInt64, math.MaxInt64} {
		if _, err := slidegate.New(newReference(), slidegate.PerMinute(quota).Share(60)); err == nil {
			t.Errorf("60 %% of the invalid quota %d is valid", quota)
		}
	}
}

// flood plays three classes on one key for several windows: batch and default each ask for ten times the quota, critical for this part of
// it, at even intervals. It returns how often critical was refused.
func flood(t *testing.T, st store.Store, clock *storetest.Clock, limit slidegate.Limit, part float64) (refused int) {
	t.Helper()
	all := newLimiter(t, st, limit)
	classes, most := map[string]*slidegate.Limiter{}, map[string]int64{}
	for name, percent := range map[string]int{"critical": 100, "default": 90, "batch": 60} {
		made, err := all.With(limit.Share(percent))
		if err != nil {
			t.Fatal(err)
		}
		classes[name], most[name] = made, adapter.Bound(made)[0].Rule().Capacity()
	}
	window := rule.Micros(limit.Window.Microseconds())
	every := rule.Micros(math.Ceil(float64(window) / (float64(limit.Quota) * part)))
	step := max(1, window/rule.Micros(10*limit.Quota))
	admitted := map[string]int64{}
	next := clock.Now() + 2*window + window/15 // soon after the others have filled a window
	for end := clock.Now() + 6*window; clock.Now() < end; {
		for _, name := range []string{"batch", "default", "critical"} {
			if name == "critical" {
				if clock.Now() < next {
					continue
				}
				next += every
			}
			d := allow(t, classes[name], "k", 1)
			switch {
			case !d.Allowed && name == "critical":
				refused++
			case d.Allowed:
				admitted[name]++
				peek, err := all.Peek(t.Context(), "k", 0)
				if own, total := most[name]-d.Remaining, most["critical"]-peek.Remaining; err != nil || own != total || total > most[name] {
					t.Fatalf("%v: after an admission of %s it has %d of %d used, and all have %d: %v", limit, name, own, most[name], total, err)
				}
			}
		}
		clock.Advance(min(step, max(1, next-clock.Now())))
	}
	if admitted["batch"]+admitted["default"] < limit.Quota || admitted["critical"] == 0 {
		t.Errorf("%v: admitted %v: the others did not use their part, so the test shows nothing", limit, admitted)
	}
	return refused
}

// What lower classes cannot reach is always there for a class that asks evenly for a little less, or for all of it on a log.
func TestClassesKeepWhatOthersCannotReach(t *testing.T) {
	for _, test := range []struct {
		limit string
		part  float64
	}{
		{"600/1m", 0.09}, {"101/1m", 0.09}, {"60/1m", 0.09}, {"12/1m", 0.09}, {"10/1s", 0.09}, {"100/1m sliding-log", 0.1}, {"40/1m sliding-log", 0.1},
		{"200/1m fixed-window", 0.09}, {"12/1m fixed-window", 0.09}, {"12/1m sliding-log", 0.1}, {"200/1m segments=1", 0.09}, {"200/1m segments=6 overlap=down", 0.09}, {"200/1m segments=60 overlap=whole", 0.09},
		{"200/1m anchor=first", 0.09}, {"200/1m token-bucket", 0.09}, {"200/1m token-bucket burst=50", 0.09},
	} {
		overStores(t, func(t *testing.T, st store.Store, clock *storetest.Clock) {
			if refused := flood(t, st, clock, slidegate.MustParseLimit(test.limit), test.part); refused > 0 {
				t.Errorf("%s: critical was refused %d times, want never", test.limit, refused)
			}
		})
	}
}

// Classes of an in-flight limit share its slots.
func TestClassesShareSlots(t *testing.T) {
	overStores(t, func(t *testing.T, st store.Store, _ *storetest.Clock) {
		all := slidegate.Slots(10, time.Minute)
		critical := newLimiter(t, st, all)
		batch, err := critical.With(all.Share(60))
		if err != nil {
			t.Fatal(err)
		}
		count := func(l *slidegate.Limiter) (n int) {
			for {
				if _, d, err := l.Acquire(t.Context(), "k"); err != nil || !d.Allowed {
					return n
				}
				n++
			}
		}
		if first, then, last := count(batch), count(critical), count(batch); first != 6 || then != 4 || last != 0 {
			t.Errorf("batch got %d slots, critical %d more, and batch %d more; want 6, 4 and 0", first, then, last)
		}
	})
}
