package lease_test

import (
	"math"
	"testing"
	"time"

	"github.com/slidegate/slidegate"
	"github.com/slidegate/slidegate/test/serverclock"
)

const (
	// settled is how long an excess may last after a step of the clock: leases live for at most a second, and what was
	// spent from them counts for as long as it is in a window.
	settled = 3 * time.Second
	between = settled + 500*time.Millisecond
)

// jumps are how far the server's clock is set. Those of more than a window move the server's state of a key.
var jumps = []time.Duration{10 * time.Second, -10 * time.Second, 125 * time.Millisecond, -125 * time.Millisecond}

// jumpsFor returns as many jumps as fit into length, and at least one ahead and one back.
func jumpsFor(length time.Duration) (all []time.Duration) {
	for i := 0; i < 2 || time.Duration(i)*between < length; i++ {
		all = append(all, jumps[i%len(jumps)])
	}
	return all
}

// The server's clock is set while three processes request one key. The excess in any window is at most what was leased
// at that time, once; later there is no excess.
func TestExcessAfterServerClockStepIsBounded(t *testing.T) {
	t.Parallel()
	for _, kind := range servers {
		t.Run(kind.name, func(t *testing.T) {
			t.Parallel()
			clock := serverclock.New(t)
			jumps := jumpsFor(*leaseLength)
			f := startFleet(t, kind.start(t, clock), processes, time.Second+(between+300*time.Millisecond)*time.Duration(len(jumps)))
			f.wires[0].Slow(40*time.Millisecond, 40*time.Millisecond)
			var steps timeline
			wait := time.Second
			for i, jump := range jumps {
				<-time.After(wait)
				<-time.After(untilPart(clock.Ahead()) + time.Duration(5+10*i%40)*time.Millisecond) // leases have just been taken
				clock.Set(clock.Ahead() + jump)
				steps = append(steps, step{time.Now().UnixNano(), int64(clock.Ahead())})
				wait = between
			}
			all := f.finish()
			for _, limit := range []slidegate.Limit{narrow, wide} {
				if err := checkLeases(all, limit); err != nil {
					t.Errorf("seed %d: %v", f.seed, err)
				}
				if err := steps.checkEnds(all, limit, 0); err != nil {
					t.Errorf("seed %d: %v", f.seed, err)
				}
				for n := range steps {
					verifyStep(t, f.seed, all, limit, steps, n)
				}
			}
			if last := within(all, steps[len(steps)-1].wall, math.MaxInt64); sum(last, narrow.Name, granted) == 0 {
				t.Errorf("seed %d: nothing was leased after the clock had been set", f.seed)
			}
		})
	}
}

// verifyStep checks what was admitted around a step, and between the time for which its effects last and the next step.
func verifyStep(t *testing.T, seed uint64, all []record, limit slidegate.Limit, steps timeline, n int) {
	t.Helper()
	jump := time.Duration(steps[n].ahead - steps.ahead(n))
	outstanding := steps.outstanding(all, limit.Name, n+1)
	before, after := steps[n].wall-int64(limit.Window), steps[n].wall+int64(settled)
	next := steps[n].wall + int64(between)
	if n+1 < len(steps) {
		next = steps[n+1].wall
	}
	over := maxInWindow(steps.admissions(within(all, before, after), limit.Name), limit.Window) - limit.Quota
	t.Logf("%s: set by %v with %d leased: an excess of %d over a quota of %d", limit.Name, jump, outstanding, over, limit.Quota)
	if over > outstanding {
		t.Errorf("seed %d: %s: after a step by %v got an excess of %d, and %d were leased", seed, limit.Name, jump, over, outstanding)
	}
	if most := maxInWindow(steps.admissions(within(all, after, next), limit.Name), limit.Window); most > limit.Quota {
		t.Errorf("seed %d: %s: long after a step by %v got %d of a quota of %d", seed, limit.Name, jump, most, limit.Quota)
	}
}

// within returns what happened between two times.
func within(all []record, from, to int64) (some []record) {
	for _, r := range all {
		if r.Now >= from && r.Now < to {
			some = append(some, r)
		}
	}
	return some
}
