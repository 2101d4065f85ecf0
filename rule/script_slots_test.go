package rule

import "testing"

// Scripts for in-flight limits: slots that are held until they are released, or until they are not renewed in time.

func TestSlots(t *testing.T) {
	play(t, Limit{Algorithm: InFlight, Quota: 2, Window: 30 * second}, []step{
		{at: 100 * second, cost: 1, id: 1, want: allowed(1).reset(30 * second)},
		{at: 110 * second, cost: 1, id: 2, want: allowed(0).next(20 * second).reset(30 * second)},
		{at: 115 * second, cost: 1, id: 3, want: refused(0).retry(15 * second).reset(25 * second)},
		{at: 115 * second, cost: 0, id: 3, want: allowed(0).next(15 * second)},
		// The first slot was renewed and is held for longer, so the second one expires first.
		{at: 120 * second, op: Renew, id: 1, want: allowed(0).granted(1).next(20 * second).reset(30 * second)},
		{at: 140*second - 1, cost: 1, id: 3, want: refused(0).retry(1)},
		{at: 140 * second, op: Renew, id: 2, want: refused(1).granted(0)}, // too late
		{at: 140 * second, cost: 1, id: 3, want: allowed(0).next(10 * second)},
		// Released by its ID, and only once.
		{at: 141 * second, op: GiveBack, cost: 1, back: 100 * second, id: 1, want: allowed(1).granted(1)},
		{at: 141 * second, op: GiveBack, cost: 1, back: 100 * second, id: 1, want: allowed(1).granted(0)},
		{at: 141 * second, op: GiveBack, cost: 1, back: 110 * second, id: 2, want: allowed(1).granted(0)},
		{at: 141 * second, op: Renew, id: 1, want: refused(1).granted(0)},
	})
}

// A caller that did not receive the answer repeats the request: it gets the slot that it has, even if that was the last
// one.
func TestSlotsTakenAgain(t *testing.T) {
	play(t, Limit{Algorithm: InFlight, Quota: 2, Window: 30 * second}, []step{
		{at: 100 * second, cost: 1, id: 1, want: allowed(1)},
		{at: 101 * second, cost: 1, id: 1, want: allowed(1)},
		{at: 102 * second, cost: 1, id: 2, want: allowed(0).next(29 * second)},
		{at: 103 * second, op: Peek, cost: 1, id: 1, want: allowed(0)},
		{at: 103 * second, op: Peek, cost: 1, id: 3, want: refused(0).retry(28 * second)},
		{at: 103 * second, cost: 1, id: 1, want: allowed(0).next(29 * second)}, // renewed: now the slot of 102s is the first to expire
		{at: 132*second - 1, cost: 1, id: 3, want: refused(0).retry(1)},
		{at: 132 * second, cost: 1, id: 3, want: allowed(0).next(second)},
	})
}

func TestSlotsOfManyAndFew(t *testing.T) {
	play(t, Limit{Algorithm: InFlight, Quota: 3, Window: 30 * second}, []step{
		{at: 100 * second, cost: 1, id: 1, want: allowed(2)},
		{at: 101 * second, cost: 1, id: 2, want: allowed(1)},
		{at: 102 * second, cost: 1, id: 3, want: allowed(0)},
		// Fewer slots than are held: none is lost, and two must go before another fits.
		{at: 103 * second, set: quota(2), cost: 1, id: 4, want: refused(0).retry(28 * second)},
		{at: 103 * second, op: Renew, id: 1, want: allowed(0).granted(1).next(29 * second)},
		{at: 104 * second, op: GiveBack, cost: 1, back: 1, id: 2, want: allowed(0).granted(1)},
		{at: 104 * second, op: GiveBack, cost: 1, back: 1, id: 3, want: allowed(1).granted(1)},
		// A Charge replaces the slot that was renewed least recently.
		{at: 105 * second, op: Charge, cost: 1, id: 5, want: allowed(0)},
		{at: 106 * second, op: Charge, cost: 1, id: 6, want: allowed(0)},
		{at: 106 * second, op: Renew, id: 1, want: refused(0).granted(0)},
		{at: 106 * second, op: GiveBack, cost: 1, back: Oldest, want: allowed(1).granted(1)},
		{at: 106 * second, op: Renew, id: 5, want: refused(1).granted(0)},
		{at: 106 * second, op: Reset, want: allowed(2).reset(0)},
		{at: 106 * second, op: Renew, id: 6, want: refused(2).granted(0)},
	})
}

// A slot, a request and 700 tokens: all or nothing.
func TestSlotsWithRates(t *testing.T) {
	limits := []Limit{
		normal(t, Limit{Algorithm: InFlight, Quota: 1, Window: 30 * second}),
		normal(t, Limit{Algorithm: SlidingLog, Quota: 2, Window: minute}),
		normal(t, Limit{Algorithm: TokenBucket, Quota: 1000, Window: minute}),
	}
	states := make([]State, len(limits))
	take := func(id ID, tokens int64, want ...bool) []Answer {
		t.Helper()
		items, answers := make([]Item, len(limits)), make([]Answer, len(limits))
		for i, cost := range []int64{1, 1, tokens} {
			items[i] = Item{Limit: &limits[i], State: &states[i], Cost: cost, ID: id}
		}
		Decide(Take, items, 100*second, answers)
		for i := range want {
			if answers[i].Allowed != want[i] {
				t.Fatalf("limit %d of reservation %d: %+v, want %v", i, id, answers[i], want[i])
			}
		}
		return answers
	}
	take(1, 1_001, true, true, false)
	if n := len(states[0].Slots); n != 0 {
		t.Fatalf("%d slots are held by a refused request", n)
	}
	take(1, 700, true, true, true)
	take(2, 100, false, true, true)
	if a := take(3, 301, false, true, false); a[1].Remaining != 1 || a[2].Remaining != 300 {
		t.Fatalf("a refused request was charged: got %+v, want Remaining 1, Remaining 300", a)
	}
}
