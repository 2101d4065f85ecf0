package rule

import "testing"

// Several limits decide one request together: all admit and all are charged, or none is.

// several is a set of limits with their states, for scripts of several requests.
type several struct {
	t      *testing.T
	limits []Limit
	states []State
}

func newSeveral(t *testing.T, limits ...Limit) *several {
	t.Helper()
	v := &several{t: t, limits: limits, states: make([]State, len(limits))}
	for i := range limits {
		limits[i] = normal(t, limits[i])
	}
	return v
}

// decide decides one request with the same cost on all limits. Every answer must be as wanted, and a state may have changed
// only if that was reported.
func (v *several) decide(op Op, at Micros, cost int64, wants ...want) {
	v.t.Helper()
	items := make([]Item, len(v.limits))
	before := make([]State, len(v.limits))
	for i := range v.limits {
		items[i] = Item{Limit: &v.limits[i], State: &v.states[i], Cost: cost}
		before[i] = v.states[i].Clone()
	}
	answers := make([]Answer, len(items))
	Decide(op, items, at, answers)
	for i, a := range answers {
		if difference := wants[i].compare(step{at: at, op: op, cost: cost}, &a); difference != "" {
			v.t.Fatalf("limit %d, at %dus, op %d, cost %d: %s\nanswer: %+v", i, at, op, cost, difference, a)
		}
		if items[i].Changed == sameState(&before[i], &v.states[i]) {
			v.t.Fatalf("limit %d, at %dus, op %d, cost %d: changed is %v", i, at, op, cost, items[i].Changed)
		}
		checkTimes(v.t, &v.limits[i], &v.states[i], step{at: at, op: op}, items[i].Cost, &a)
	}
}

func TestSeveralAllOrNothing(t *testing.T) {
	v := newSeveral(t, Limit{Algorithm: SlidingWindow, Quota: 10, Window: minute}, Limit{Algorithm: FixedWindow, Quota: 3, Window: 10 * second})
	v.decide(Take, 60*second, 2, allowed(8), allowed(1))
	v.decide(Take, 61*second, 2, allowed(8).granted(0), refused(1).retry(9*second))
	v.decide(Peek, 61*second, 1, allowed(8), allowed(1))
	v.decide(Take, 61*second, 1, allowed(7), allowed(0))
	v.decide(Take, 70*second, 3, allowed(4), allowed(0))
	v.decide(Take, 80*second, 3, allowed(1), allowed(0))
	// Now the other one refuses: 9 are used of 10.
	v.decide(Take, 90*second, 2, refused(1), allowed(3).granted(0))
	// More than one of them holds: never for the one, and an ordinary refusal for the other.
	v.decide(Take, 90*second, 4, refused(1), refused(3).retry(Never))
	v.decide(Take, 90*second, 1, allowed(0), allowed(2))
}

func TestSeveralTakeUpTo(t *testing.T) {
	v := newSeveral(t,
		Limit{Algorithm: SlidingWindow, Quota: 10, Window: minute},
		Limit{Algorithm: SlidingLog, Quota: 4, Window: 10 * second},
		Limit{Algorithm: TokenBucket, Quota: 6, Window: minute, Burst: 7},
	)
	v.decide(TakeUpTo, 60*second, 9, allowed(6).granted(4), allowed(0).granted(4), allowed(3).granted(4))
	v.decide(TakeUpTo, 60*second, 9, allowed(6).granted(0), refused(0).granted(0).retry(10*second), allowed(3).granted(0))
	// A unit of the bucket has been refilled.
	v.decide(TakeUpTo, 70*second, 9, allowed(2).granted(4), allowed(0).granted(4), allowed(0).granted(4))
	v.decide(TakeUpTo, 70*second, 9, allowed(2).granted(0), refused(0).granted(0), refused(0).granted(0).retry(10*second))
	v.decide(TakeUpTo, 90*second, 9, allowed(0).granted(2), allowed(2).granted(2), allowed(0).granted(2))
}

// A limit that counts refusals counts its own, not those of another limit.
func TestSeveralCountRefused(t *testing.T) {
	v := newSeveral(t,
		Limit{Algorithm: FixedWindow, Quota: 5, Window: 10 * second, CountRefused: true},
		Limit{Algorithm: FixedWindow, Quota: 3, Window: 10 * second, CountRefused: true},
		Limit{Algorithm: FixedWindow, Quota: 4, Window: 10 * second},
	)
	v.decide(Take, 10*second, 2, allowed(3), allowed(1), allowed(2))
	v.decide(Take, 10*second, 2, allowed(3).granted(0), refused(0), allowed(2).granted(0)) // the second now has 4 of 3
	v.decide(Take, 10*second, 3, allowed(3).granted(0), refused(0), refused(2))            // and now 7 of 3
	v.decide(GiveBack, 10*second, 4, allowed(5).granted(2), allowed(0).granted(4), allowed(4).granted(2))
	v.decide(GiveBack, 10*second, 1, allowed(5).granted(0), allowed(1).granted(1), allowed(4).granted(0))
	v.decide(Take, 10*second, 1, allowed(4), allowed(0), allowed(3))
	// A cost that one of them never admits is not charged to any.
	v.decide(Take, 20*second, 5, allowed(5).granted(0), refused(3).retry(Never), refused(4).retry(Never))
	v.decide(Peek, 20*second, 3, allowed(5), allowed(3), allowed(4))
}

// Charge, GiveBack and Reset apply to each limit independently.
func TestSeveralOfEachVerb(t *testing.T) {
	v := newSeveral(t, Limit{Algorithm: SlidingWindow, Quota: 2, Window: minute}, Limit{Algorithm: SlidingLog, Quota: 5, Window: minute})
	v.decide(Charge, 60*second, 3, allowed(0), allowed(2))
	v.decide(Take, 60*second, 0, refused(0), allowed(2).granted(0))
	v.decide(GiveBack, 60*second, 2, allowed(1).granted(2), allowed(4).granted(2))
	v.decide(Take, 60*second, 1, allowed(0), allowed(3))
	v.decide(Reset, 60*second, 0, allowed(2), allowed(5))
	v.decide(Take, 60*second, 2, allowed(0), allowed(3))
}

// A state that the clock left ahead is written back by its own limit's refusal, and left alone by another limit's.
func TestSeveralAfterAClockJump(t *testing.T) {
	v := newSeveral(t, Limit{Algorithm: SlidingWindow, Quota: 2, Window: minute}, Limit{Algorithm: SlidingWindow, Quota: 5, Window: minute})
	v.decide(Take, 6000*second, 2, allowed(0), allowed(3))
	v.decide(Take, 60*second, 1, refused(0).moved().retry(90*second), allowed(3).granted(0).moved())
	v.decide(Take, 61*second, 1, refused(0).retry(89*second), allowed(3).granted(0).moved())
	v.decide(Take, 150*second, 1, allowed(0), allowed(2).moved())
	v.decide(Take, 150*second, 1, refused(0), allowed(2).granted(0))
}
