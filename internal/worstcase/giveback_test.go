package worstcase

import (
	"testing"

	"github.com/slidegate/slidegate/rule"
)

// eachHardCap calls f with every limit that promises a hard cap, with refusals that count and that do not. The quota is
// small, because giving back needs many deeds to be combined and not large numbers.
func eachHardCap(f func(name string, l rule.Limit)) {
	for _, c := range Cases(10) {
		for _, l := range c.Limits {
			if l.Algorithm != rule.SlidingLog && l.Overlap != rule.Whole {
				continue
			}
			for _, l.CountDenied = range []bool{false, true} {
				name := c.Name + ", " + l.Anchor.String()
				if l.CountDenied {
					name += ", count_denied"
				}
				f(name, l)
			}
		}
	}
}

// TestGivingBackNeverExceeds is the hard caps' promise net of what was given back, by Cancel, Settle and Refund.
func TestGivingBackNeverExceeds(t *testing.T) {
	eachHardCap(func(name string, l rule.Limit) {
		if most, deeds := SearchGiveBack(l, GiveBackRules{}, effort(40, 400)); most != l.Quota {
			t.Errorf("%s: %d of %d in a window, net of what was given back: %+v", name, most, l.Quota, deeds)
		}
	})
}

// TestGivingBackSearchIsStrong shows that the search finds what is known to go wrong: settling twice, everywhere, and
// the worst case of the weighted counter. With giving back that is also in reach where windows start with the first
// request, because the unit that started one can be given back.
func TestGivingBackSearchIsStrong(t *testing.T) {
	skipWeak(t)
	eachHardCap(func(name string, l rule.Limit) {
		if most, _ := SearchGiveBack(l, GiveBackRules{SettleTwice: true}, effort(50, 300)); most <= l.Quota {
			t.Errorf("%s: settling twice was not noticed", name)
		}
	})
	for _, l := range bothAnchors(rule.Limit{Quota: 10}) {
		if most, _ := SearchGiveBack(l, GiveBackRules{}, effort(60, 400)); most != 2*l.Quota-1 {
			t.Errorf("up, %s: found %d in a window, known is %d", l.Anchor, most, 2*l.Quota-1)
		}
	}
}

// TestOverdraft is about Settle upward, which charges beyond the quota. The net of admissions alone stays within the
// quota all the same. A window with overlap whole also remembers all of the overdraft, and admits nothing until all
// that counts is within the quota again.
func TestOverdraft(t *testing.T) {
	eachHardCap(func(name string, l rule.Limit) {
		e := effort(20, 400)
		if most, deeds := SearchGiveBack(l, GiveBackRules{Overdraw: true, Forget: true}, e); most > l.Quota {
			t.Errorf("%s: %d of %d admitted in a window: %+v", name, most, l.Quota, deeds)
		}
		if l.Overlap != rule.Whole {
			return
		}
		if most, deeds := SearchGiveBack(l, GiveBackRules{Overdraw: true}, e); most > l.Quota {
			t.Errorf("%s: %d of %d charged in a window after an admission: %+v", name, most, l.Quota, deeds)
		}
	})
}

// TestOverdraftOfALog shows what the documentation says is not promised: a log remembers no more units than its quota,
// so that giving back after an overdraft lets it admit again too early. If this fails because the log has learned to
// remember them, the documentation should say that instead.
func TestOverdraftOfALog(t *testing.T) {
	deeds := []Deed{
		{At: 0, Op: rule.Take, Units: 10},
		{At: 1, Op: rule.Charge, Units: 10},
		{At: 2, Op: rule.GiveBack, Units: 10, Whose: -1},
		{At: 3, Op: rule.Take, Units: 10},
	}
	for _, test := range []struct {
		limit rule.Limit
		want  int64
	}{
		{normal(rule.Limit{Algorithm: rule.SlidingLog, Quota: 10}), 20},
		{normal(rule.Limit{Overlap: rule.Whole, Quota: 10}), 10},
	} {
		books := ledger{player: player{limit: test.limit}, rules: GiveBackRules{Overdraw: true}}
		if got := books.run(deeds); got != test.want {
			t.Errorf("%s: %d outstanding after an admission, want %d", test.limit.Algorithm, got, test.want)
		}
	}
}
