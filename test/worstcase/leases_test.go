package worstcase

import (
	"math/rand/v2"
	"sync"
	"testing"

	"github.com/slidegate/slidegate/rule"
)

// foundLeased is the content of the table of leases.
var foundLeased = sync.OnceValue(func() []LeasedRow { return FindLeased(found(), effort(12, 200)) })

// TestLeasesAdmitNoMore checks the promise of leases: the worst case is the same with them as without. A token bucket's
// burst is lowered by whole units, so the shortest interval over its quota may be longer.
func TestLeasesAdmitNoMore(t *testing.T) {
	for _, r := range foundLeased() {
		plain := r.Limits[0]
		if !r.Leasable {
			continue
		}
		if want := provenMaximum(plain); r.Leased.Most != want {
			t.Errorf("%s: found %d in a window with leases, want %d as without: %s", r.Name, r.Leased.Most, want, r.Leased.Schedule)
		}
		want := provenShortest(plain)
		if got := r.Over.Shortest; got < want || got > want && plain.Algorithm != rule.TokenBucket {
			t.Errorf("%s: found an interval of %dus over the quota with leases, want %dus as without: %s", r.Name, got, want, r.Over.Schedule)
		}
		t.Logf("%s: %d in a window: %s", r.Name, r.Leased.Most, r.Leased.Schedule)
	}
}

// TestNaiveLeasesAdmitMore compares the last column of the table with what can be proved. Leases that live for v are spent
// in a window if they were charged in it or up to v before. That interval is shorter than two windows, so a hard cap lets
// two quotas be charged in it; it touches three fixed windows; and a bucket refills for v longer.
func TestNaiveLeasesAdmitMore(t *testing.T) {
	for _, r := range foundLeased() {
		l := r.Limits[0]
		var want int64
		switch {
		case l.Algorithm == rule.SlidingLog || l.Overlap == rule.OverlapWhole:
			want = 2 * l.Quota
		case l.Algorithm == rule.FixedWindow:
			want = 3 * l.Quota
		case l.Algorithm == rule.TokenBucket:
			want = l.Burst + l.Quota*int64(Window+naiveLife-1)/int64(Window)
		default:
			continue // weighted counters admit nearly two quotas even without leases
		}
		if r.Naive.Most != want {
			t.Errorf("%s: found %d in a window with naive leases, want %d: %s", r.Name, r.Naive.Most, want, r.Naive.Schedule)
		}
	}
}

// TestLeasesFindPlantedFaults plants the smallest possible faults: leases that live two microseconds longer than their
// part, one more than a hard cap has to spare, and a bucket whose burst was not lowered.
func TestLeasesFindPlantedFaults(t *testing.T) {
	late := func(l *rule.Limit, at rule.Micros) rule.Micros { return WithinPart(l, at) + 2 }
	for _, c := range Cases(100) {
		l, life := c.Limits[0], Life(WithinPart)
		switch {
		case l.Overlap == rule.OverlapWhole:
			life = late
		case l.Algorithm != rule.TokenBucket:
			continue
		}
		if f := SearchLeased(l, life, MostIn(Window), effort(12, 200)); f.Most <= provenMaximum(l) {
			t.Errorf("%s: the search missed the fault: %d in a window", c.Name, f.Most)
		}
	}
}

// TestEverySpendIsAdmitted checks the reason for all this: the rule admits every spend at the time at which it happens,
// knowing only the spends before it.
func TestEverySpendIsAdmitted(t *testing.T) {
	refused := func(charged, spent rule.Limit, life Life) (n int) {
		r := rand.New(rand.NewPCG(*seedFlag, 0x1ea5e))
		p := newPlayer(charged)
		p.life = life
		c := &climber{player: p, rand: r, part: charged.Window / max(1, rule.Micros(charged.Segments)), capacity: charged.Capacity()}
		for range 300 * *effortFlag {
			s := c.random()
			for range 2 * maxSteps {
				s = c.change(s)
			}
			replay := newPlayer(spent)
			for _, a := range p.play(s) {
				if answer := replay.do(rule.Take, a.At, a.Units); !answer.Allowed {
					n++
				}
			}
		}
		return n
	}
	for _, c := range Cases(100) {
		l := c.Limits[0]
		if l.Algorithm == rule.SlidingLog {
			continue
		}
		if n := refused(leased(l), l, WithinPart); n > 0 {
			t.Errorf("%s: the rule refuses %d spends, want 0", c.Name, n)
		}
		if n := refused(l, l, Naive(Window/10)); n == 0 {
			t.Errorf("%s: the rule refuses no spend of naive leases", c.Name)
		}
	}
}
