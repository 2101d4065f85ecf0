package worstcase

import (
	"math/rand/v2"
	"sync"
	"testing"

	"github.com/slidegate/slidegate/rule"
)

// foundLeased is what the table of leases shows.
var foundLeased = sync.OnceValue(func() []LeasedRow { return FindLeased(found(), effort(12, 200)) })

// TestLeasesAdmitNoMore is the promise of leases: the worst case is the same with them as without. A token bucket's burst is
// lowered by whole units, so the shortest stretch over its quota may be longer.
func TestLeasesAdmitNoMore(t *testing.T) {
	for _, r := range foundLeased() {
		plain := r.Limits[0]
		if !r.Leasable {
			continue
		}
		if want := mostProved(plain); r.Leased.Most != want {
			t.Errorf("%s: found %d in a window with leases, without it is %d: %s", r.Name, r.Leased.Most, want, r.Leased.Schedule)
		}
		want := shortestProved(plain)
		if got := r.Over.Shortest; got < want || got > want && plain.Algorithm != rule.TokenBucket {
			t.Errorf("%s: found a stretch of %dus over the quota with leases, without it is %dus: %s", r.Name, got, want, r.Over.Schedule)
		}
		t.Logf("%s: %d in a window: %s", r.Name, r.Leased.Most, r.Leased.Schedule)
	}
}

// TestNaiveLeasesAdmitMore holds the last column of the table to what can be proved. Blocks that live for v are spent in a window
// if they were charged in it or up to v before. That stretch is shorter than two windows, so a hard cap lets two quotas be
// charged in it; it touches three fixed windows; and a bucket refills for v longer.
func TestNaiveLeasesAdmitMore(t *testing.T) {
	for _, r := range foundLeased() {
		l := r.Limits[0]
		var want int64
		switch {
		case l.Algorithm == rule.SlidingLog || l.Overlap == rule.Whole:
			want = 2 * l.Quota
		case l.Algorithm == rule.FixedWindow:
			want = 3 * l.Quota
		case l.Algorithm == rule.TokenBucket:
			want = l.Burst + l.Quota*int64(Window+naiveLife-1)/int64(Window)
		default:
			continue // weighted counters let nearly two quotas through by themselves
		}
		if r.Naive.Most != want {
			t.Errorf("%s: found %d in a window with naive leases, proved is %d: %s", r.Name, r.Naive.Most, want, r.Naive.Schedule)
		}
	}
}

// TestLeasesFindPlantedFaults plants faults that are as small as can be: blocks that live two microseconds longer than their
// part, which is one more than a hard cap has to spare, and a bucket whose burst was not lowered.
func TestLeasesFindPlantedFaults(t *testing.T) {
	late := func(l *rule.Limit, at rule.Micros) rule.Micros { return WithinPart(l, at) + 2 }
	for _, c := range Cases(100) {
		l, life := c.Limits[0], Life(WithinPart)
		switch {
		case l.Overlap == rule.Whole:
			life = late
		case l.Algorithm != rule.TokenBucket:
			continue
		}
		if f := SearchLeased(l, life, MostIn(Window), effort(12, 200)); f.Most <= mostProved(l) {
			t.Errorf("%s: the fault was not noticed: %d in a window", c.Name, f.Most)
		}
	}
}

// TestEverySpendIsAdmitted is why all of that holds: the rule admits every spend at the very moment at which it happens, knowing
// nothing but the spends before it.
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
			t.Errorf("%s: the rule refuses %d spends", c.Name, n)
		}
		if n := refused(l, l, Naive(Window/10)); n == 0 {
			t.Errorf("%s: the rule refuses nothing of what naive leases spend", c.Name)
		}
	}
}
