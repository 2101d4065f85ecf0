package memstore_test

import (
	"testing"

	"github.com/slidegate/slidegate/memstore"
	"github.com/slidegate/slidegate/rule"
	"github.com/slidegate/slidegate/store"
	"github.com/slidegate/slidegate/storetest"
)

// Windows of a packed state are numbered from the time of the first request. Whatever writes a state at a time outside these
// numbers moves it to the second form, and decides as the rule does.
func TestPackedStateOutsideItsNumbers(t *testing.T) {
	const second, start = minute / 60, 1_767_225_600 * minute / 60
	const last = start + (1<<28-5)*second // of the windows that have a number, in eight years
	for _, limit := range []*store.Limit{
		boundTo(t, "window", rule.Limit{Algorithm: rule.SlidingWindow, Quota: 1000, Window: second}),
		boundTo(t, "fixed", rule.Limit{Algorithm: rule.FixedWindow, Quota: 1000, Window: second}),
	} {
		for _, times := range [][2]rule.Micros{
			{start, start - 2*second}, {start, start - 4*second}, {start, start - 3600*second}, {start, 0}, {start, start + second/2},
			{last, last + second/2}, {last, last + second}, {last + second/2, last + 3*second/2}, {last, start - 4*second}, {last + second, last - second},
		} {
			for _, op := range []rule.Op{rule.GiveBack, rule.Settle, rule.Charge, rule.Take} {
				for _, at := range []rule.Micros{rule.Oldest, times[0], max(1, times[1])} {
					clock := storetest.NewClock(start)
					st := open(t, memstore.Options{Now: clock.Now})
					plain := newPlainStore()
					for i, charge := range []store.Charge{{Key: "first", Cost: 1}, {Key: "key", Cost: 5}, {Key: "key", Cost: 2, At: at}, {Key: "key"}} {
						charge.Limit = limit
						r := store.Request{Op: []rule.Op{rule.Charge, rule.Charge, op, rule.Peek}[i], ID: 1, Charges: []store.Charge{charge}, Answers: make([]rule.Answer, 1)}
						clock.Set([]rule.Micros{start, times[0], times[1], times[1]}[i])
						plain.apply(&r, clock.Now())
						if got := decide(t, st, r.Op, 1, charge); got[0] != r.Answers[0] {
							t.Errorf("%s, %v, times %v: %v at %d: got %+v, want %+v", limit.Name(), op, times, r.Op, at, got[0], r.Answers[0])
						}
					}
				}
			}
		}
	}
}

// If the caller's clock panics in the middle of a request, the panic reaches the caller, and nothing stays locked: neither the
// pages nor the slots of the keys.
func TestPanicLeavesNothingLocked(t *testing.T) {
	clock := storetest.NewClock(1_767_225_600_000_000)
	broken := false
	st := open(t, memstore.Options{Now: func() rule.Micros {
		if broken {
			panic("broken clock")
		}
		return clock.Now()
	}})
	limits := everyLimit(t, 100)
	var charges []store.Charge
	for _, limit := range limits {
		charges = append(charges, store.Charge{Limit: limit, Key: "key", Cost: 1, Used: 2})
	}
	for i, a := range decide(t, st, rule.Take, 1, charges...) {
		charges[i].At = a.At
	}
	attempt := func(op rule.Op, charges []store.Charge) (recovered any) {
		defer func() { recovered = recover() }()
		decide(t, st, op, 1, charges...)
		return nil
	}
	for _, op := range []rule.Op{rule.Take, rule.TakeUpTo, rule.Peek, rule.Charge, rule.GiveBack, rule.Reset, rule.Settle, rule.Renew} {
		for i := range charges {
			broken = true
			for _, part := range [][]store.Charge{charges[i : i+1], charges} {
				if attempt(op, part) == nil {
					t.Errorf("%v of %s did not panic", op, limits[i].Name())
				}
			}
			if broken = false; op == rule.Peek {
				decide(t, st, rule.Charge, 1, charges...)
			}
		}
	}
	for i, a := range decide(t, st, rule.Peek, 0, charges...) {
		want := limits[i].Rule().Capacity() - 1 - int64(len(charges))
		if limits[i].Rule().Algorithm == rule.InFlight {
			want = 99
		}
		if a.Remaining != want {
			t.Errorf("%s: %d left, want %d", limits[i].Name(), a.Remaining, want)
		}
	}
}
