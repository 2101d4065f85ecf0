package worstcase

import (
	"flag"
	"sync"
	"testing"

	"github.com/slidegate/slidegate/internal/testkit"
	"github.com/slidegate/slidegate/rule"
)

var (
	effortFlag = flag.Int("effort", 1, "how many times longer than usual to search")
	seedFlag   = flag.Uint64("seed", 1, "seed of the search's random numbers")
)

// effort is how hard a test searches: enough to reach every known worst case, from any of many seeds. Under the race
// detector it starts from the known strategies and little else.
func effort(restarts, climb int) Effort {
	restarts *= *effortFlag
	if testkit.Race {
		restarts, climb = max(1, restarts/6), climb/2
	}
	return Effort{Seed: *seedFlag, Restarts: restarts, Climb: climb}
}

// skipWeak skips a test of the search's own strength if the search was weakened.
func skipWeak(t *testing.T) {
	if testkit.Race {
		t.Skip("the search is weakened under the race detector")
	}
}

// found is the content of the table. Several tests use it, and it is searched for once.
var found = sync.OnceValue(func() []Row { return Find(Cases(100), effort(12, 200)) })

// provenMaximum is the proven maximum of units in a window. Let L be the quota, x the units that the window's first part
// admitted, y those of them in the window, and w their weight at the last admission in the window.
//
// That part is then the weighted one, and all later ones are counted in full, so with w they add up to at most L: the
// window holds at most L + y - w. With y <= x <= L that is at most L + L - 1 if the weight is rounded up, as it is never
// less than 1, and L + L if it is rounded down. Counted whole, w is x and the window holds at most L.
//
// If windows start with the first request, x = L at the end of its part is out of reach: whatever started the part, or kept
// the state alive until then, is a unit that is rounded up to 1 and takes the place of one of the L.
func provenMaximum(l rule.Limit) int64 {
	quota := l.Quota
	switch {
	case l.Algorithm == rule.TokenBucket:
		return l.Burst + quota - 1 // a full bucket, and what is refilled until just before a window later
	case l.Algorithm == rule.FixedWindow && l.Anchor == rule.AnchorFirst:
		return 2*quota - 1 // the unit that starts the window is a window away from the next one
	case l.Algorithm == rule.FixedWindow, l.Overlap == rule.OverlapDown:
		return 2 * quota
	case isLog(&l), l.Overlap == rule.OverlapWhole:
		return quota
	case l.Anchor == rule.AnchorFirst:
		return max(quota, 2*quota-2)
	default:
		return 2*quota - 1
	}
}

// isLog reports whether the state of l is a log.
func isLog(l *rule.Limit) bool {
	return l.Algorithm == rule.SlidingLog || l.Algorithm == rule.DefaultAlgorithm && !l.StartsInParts(0)
}

// provenShortest is the shortest interval that can hold more than the quota, by the same argument: for a sliding window it
// ends as soon as one unit of the weighted part no longer counts.
func provenShortest(l rule.Limit) rule.Micros {
	segments := max(1, rule.Micros(l.Segments))
	part := l.Window / segments
	switch {
	case isLog(&l):
		return l.Window + 1
	case l.Algorithm == rule.FixedWindow:
		return 2
	case l.Algorithm == rule.TokenBucket:
		missing, quota := rule.Micros(l.Quota+1-l.Burst), rule.Micros(l.Quota)
		return (missing*l.Window+quota-1)/quota + 1
	case l.Overlap == rule.OverlapWhole:
		return l.Window + 2
	case l.Overlap == rule.OverlapDown:
		return (segments-1)*part + 3
	}
	burst := rule.Micros(l.Quota)
	if l.Anchor == rule.AnchorFirst {
		burst--
	}
	return (segments-1)*part + (part+burst-1)/burst + 2
}

// TestFindsWhatIsProved compares the rule and the search with the proofs: more would break a promise, and less would mean a
// search so weak that finding nothing proves nothing.
func TestFindsWhatIsProved(t *testing.T) {
	tries := 0
	for _, row := range found() {
		for i, l := range row.Limits {
			most, shortest := row.Most[i], row.Shortest[i]
			if want := provenMaximum(l); most.Most != want {
				t.Errorf("%s, %s: found %d in a window, want %d: %s", row.Name, l.Anchor, most.Most, want, most.Schedule)
			}
			if want := provenShortest(l); shortest.Shortest != want {
				t.Errorf("%s, %s: found an interval of %dus over the quota, want %dus: %s",
					row.Name, l.Anchor, shortest.Shortest, want, shortest.Schedule)
			}
			t.Logf("%s, %s: %d in a window: %s", row.Name, l.Anchor, most.Most, most.Schedule)
			t.Logf("%s, %s: over in %dus: %s", row.Name, l.Anchor, shortest.Shortest, shortest.Schedule)
			tries += most.Tries + shortest.Tries
		}
	}
	t.Logf("%d schedules were tried", tries)
}

// TestHardCapsAreNeverExceeded checks the promise itself: sliding-log and overlap whole never admit more than the quota in any window,
// whether refusals count or not.
func TestHardCapsAreNeverExceeded(t *testing.T) {
	for _, c := range Cases(100) {
		for _, l := range c.Limits {
			if l.Algorithm != rule.SlidingLog && l.Overlap != rule.OverlapWhole {
				continue
			}
			for _, l.CountRefused = range []bool{false, true} {
				e := effort(30, 200)
				e.Seed += 1000 // not the schedules used for the table
				if f := Search(l, MostIn(Window), e); f.Most != l.Quota {
					t.Errorf("%s, %s, count_refused %t: %d of %d in a window: %s",
						c.Name, l.Anchor, l.CountRefused, f.Most, l.Quota, f.Schedule)
				}
			}
		}
	}
}

// TestWeightedWindowKeepsItsInterval checks the other promise: a weighted window never admits more than the quota in (1 -
// 1/segments) windows, and neither does overlap down.
func TestWeightedWindowKeepsItsInterval(t *testing.T) {
	for _, c := range Cases(100) {
		for _, l := range c.Limits {
			if l.Segments < 2 || isLog(&l) {
				continue
			}
			interval := Window - Window/rule.Micros(l.Segments)
			if f := Search(l, MostIn(interval), effort(12, 200)); f.Most != l.Quota {
				t.Errorf("%s, %s: %d of %d in %dus: %s", c.Name, l.Anchor, f.Most, l.Quota, interval, f.Schedule)
			}
		}
	}
}

// TestCountRefusedAdmitsNoMore also lets the adversary be refused on purpose.
func TestCountRefusedAdmitsNoMore(t *testing.T) {
	for _, c := range Cases(100) {
		for _, l := range c.Limits {
			l.CountRefused = true
			f := Search(l, MostIn(Window), effort(6, 100))
			if most := provenMaximum(l); f.Most > most {
				t.Errorf("%s, %s: %d in a window if refusals count, want at most %d: %s",
					c.Name, l.Anchor, f.Most, most, f.Schedule)
			}
		}
	}
}

// TestRatiosApplyToAnyQuota checks that the ratios in the table apply to any quota.
func TestRatiosApplyToAnyQuota(t *testing.T) {
	for _, quota := range []int64{1, 2, 10, 1000} {
		for _, c := range Cases(quota) {
			for _, l := range c.Limits {
				f := Search(l, MostIn(Window), effort(1, 40))
				if want := provenMaximum(l); f.Most != want {
					t.Errorf("quota %d, %s, %s: found %d in a window, want %d: %s",
						quota, c.Name, l.Anchor, f.Most, want, f.Schedule)
				}
			}
		}
	}
}

// TestSearchFindsWorstCasesUnaided leaves out the known strategies. The search then finds worst cases that it was not given, which makes it
// credible where it finds nothing.
func TestSearchFindsWorstCasesUnaided(t *testing.T) {
	skipWeak(t)
	for _, c := range Cases(100) {
		for _, l := range c.Limits {
			e := effort(20, 300)
			e.Blind = true
			f := Search(l, MostIn(Window), e)
			if want := provenMaximum(l); f.Most < want-want/50 {
				t.Errorf("%s, %s: found %d by itself, want %d", c.Name, l.Anchor, f.Most, want)
			}
		}
	}
}

// TestFindsPlantedFaults plants the smallest possible fault: a window that is too short by one microsecond or, with parts,
// by the two that a hard cap has to spare. That equals measuring over a window that is longer by that much.
func TestFindsPlantedFaults(t *testing.T) {
	for _, c := range Cases(100) {
		for _, l := range c.Limits {
			if l.Algorithm != rule.SlidingLog && l.Overlap != rule.OverlapWhole {
				continue
			}
			length := provenShortest(l)
			if f := Search(l, MostIn(length), effort(4, 100)); f.Most <= l.Quota {
				t.Errorf("%s, %s: the search missed a window that is %dus too short", c.Name, l.Anchor, length-Window)
			}
		}
	}
}

// TestWholeOnAverage is the source of the averages in the table: after taking its quota at once, a client waits for one
// part more than a window.
func TestWholeOnAverage(t *testing.T) {
	for _, segments := range segmentsInTable {
		l := normalize(rule.Limit{Algorithm: rule.SlidingWindow, Overlap: rule.OverlapWhole, Segments: segments, Quota: 100})
		admissions := Play(l, Schedule{{At: 0, Until: 4 * Window, Cost: 100}})
		want := Window + Window/rule.Micros(segments)
		if got := admissions[1].At - admissions[0].At; got != want || admissions[1].Units != 100 {
			t.Errorf("%d segments: %d units after %dus, want 100 after %dus", segments, admissions[1].Units, got, want)
		}
	}
}
