package worstcase

import (
	"testing"

	"github.com/slidegate/slidegate/internal/testkit"
	"github.com/slidegate/slidegate/rule"
)

// eachHardCap calls f with every limit that promises a hard cap, with refusals that count and that do not. The quota is
// small, because giving back needs many combined operations rather than large numbers.
func eachHardCap(f func(name string, l rule.Limit)) {
	for _, c := range Cases(10) {
		for _, l := range c.Limits {
			if l.Algorithm != rule.SlidingLog && l.Overlap != rule.OverlapWhole {
				continue
			}
			for _, l.CountRefused = range []bool{false, true} {
				name := c.Name + ", " + l.Anchor.String()
				if l.CountRefused {
					name += ", count_refused"
				}
				f(name, l)
			}
		}
	}
}

// TestGivingBackNeverExceeds checks the promise of hard caps, net of what was given back by Cancel, Settle and Refund.
func TestGivingBackNeverExceeds(t *testing.T) {
	eachHardCap(func(name string, l rule.Limit) {
		if most, deeds := SearchGiveBack(l, GiveBackRules{}, effort(40, 400)); most != l.Quota {
			t.Errorf("%s: %d of %d in a window, net of what was given back: %+v", name, most, l.Quota, deeds)
		}
	})
}

// TestGivingBackSearchIsStrong checks that the search finds what is known to go wrong: settling twice, everywhere, and the
// worst case of the weighted counter. With giving back, that case is also reachable if windows start with the first
// request, because the unit that started one can be given back.
func TestGivingBackSearchIsStrong(t *testing.T) {
	skipWeak(t)
	eachHardCap(func(name string, l rule.Limit) {
		if most, _ := SearchGiveBack(l, GiveBackRules{SettleTwice: true}, effort(50, 300)); most <= l.Quota {
			t.Errorf("%s: the search missed settling twice", name)
		}
	})
	for _, l := range bothAnchors(rule.Limit{Algorithm: rule.SlidingWindow, Quota: 10}) {
		if most, _ := SearchGiveBack(l, GiveBackRules{}, effort(60, 400)); most != 2*l.Quota-1 {
			t.Errorf("up, %s: found %d in a window, want %d", l.Anchor, most, 2*l.Quota-1)
		}
	}
}

// buckets returns token buckets that hold less than their quota, exactly their quota, and more.
func buckets() (limits []rule.Limit) {
	for _, l := range []rule.Limit{{Quota: 3, Burst: 1}, {Quota: 10, Burst: 4}, {Quota: 10, Burst: 10}, {Quota: 10, Burst: 25}} {
		l.Algorithm = rule.TokenBucket
		for _, l.CountRefused = range []bool{false, true} {
			limits = append(limits, normalize(l))
		}
	}
	return limits
}

// TestGivingBackToABucket checks the promise for clients that cancel: net of what was given back, a bucket admits no more
// than it holds and is refilled with. Refund is different, because it does not say when the units were taken.
func TestGivingBackToABucket(t *testing.T) {
	for _, l := range buckets() {
		most, deeds := SearchGiveBack(l, GiveBackRules{NoRefund: true}, effort(30, 400))
		if bound := l.Burst + l.Quota - 1; most > bound || most < bound-1 && !testkit.Race {
			t.Errorf("burst %d, count_refused %t: %d in a window, net of what was given back, want about %d and no more: %+v",
				l.Burst, l.CountRefused, most, bound, deeds)
		}
	}
}

// TestGivingBackToABucketIsSearched checks that the search finds a fault that buckets once had: units that had been
// refilled since they were taken were given back as well, so they were free twice.
func TestGivingBackToABucketIsSearched(t *testing.T) {
	skipWeak(t)
	for _, l := range buckets() {
		if most, _ := SearchGiveBack(l, GiveBackRules{NoRefund: true, Refilled: true}, effort(60, 400)); most <= l.Burst+l.Quota-1 {
			t.Errorf("burst %d, count_refused %t: the search missed giving back refilled units: %d", l.Burst, l.CountRefused, most)
		}
	}
	// By hand: a hundred units are reserved, and cancelled when nearly all of them have been refilled and taken.
	l := normalize(rule.Limit{Algorithm: rule.TokenBucket, Quota: 100})
	deeds := []Action{
		{At: 0, Op: rule.Take, Units: 100},
		{At: Window - 1, Op: rule.Take, Units: 99},
		{At: Window - 1, Op: rule.GiveBack, Units: 100, From: 0},
		{At: Window - 1, Op: rule.TakeUpTo, Units: 100},
		{At: 2*Window - 2, Op: rule.TakeUpTo, Units: 100},
	}
	for rules, want := range map[GiveBackRules]int64{{}: 199, {Refilled: true}: 298} {
		books := ledger{player: player{limit: l}, rules: rules}
		if got := books.run(deeds); got != want {
			t.Errorf("%+v: %d in a window, want %d", rules, got, want)
		}
	}
}

// TestOverdraft is about a Settle that charges beyond the quota. The net of admissions alone still stays within the quota.
// A window with overlap whole also remembers the whole overdraft, and admits nothing until everything that counts is within
// the quota again.
func TestOverdraft(t *testing.T) {
	eachHardCap(func(name string, l rule.Limit) {
		e := effort(20, 400)
		if most, deeds := SearchGiveBack(l, GiveBackRules{Overdraw: true, Forget: true}, e); most > l.Quota {
			t.Errorf("%s: %d of %d admitted in a window: %+v", name, most, l.Quota, deeds)
		}
		if l.Overlap != rule.OverlapWhole {
			return
		}
		if most, deeds := SearchGiveBack(l, GiveBackRules{Overdraw: true}, e); most > l.Quota {
			t.Errorf("%s: %d of %d charged in a window after an admission: %+v", name, most, l.Quota, deeds)
		}
	})
}

// TestOverdraftOfALog demonstrates what the documentation does not promise: a log that is named remembers no more units than its quota,
// so that giving back after an overdraft lets it admit again too early. If this fails because logs remember them now, the
// documentation should say so.
func TestOverdraftOfALog(t *testing.T) {
	deeds := []Action{
		{At: 0, Op: rule.Take, Units: 10},
		{At: 1, Op: rule.Charge, Units: 10},
		{At: 2, Op: rule.GiveBack, Units: 10, From: -1},
		{At: 3, Op: rule.Take, Units: 10},
	}
	for _, test := range []struct {
		limit rule.Limit
		want  int64
	}{
		{normalize(rule.Limit{Algorithm: rule.SlidingLog, Quota: 10}), 20},
		{normalize(rule.Limit{Algorithm: rule.SlidingWindow, Overlap: rule.OverlapWhole, Quota: 10}), 10},
		{normalize(rule.Limit{Quota: 10}), 10}, // which drops no unit
	} {
		books := ledger{player: player{limit: test.limit}, rules: GiveBackRules{Overdraw: true}}
		if got := books.run(deeds); got != test.want {
			t.Errorf("%s: %d outstanding after an admission, want %d", test.limit.Algorithm, got, test.want)
		}
	}
}
