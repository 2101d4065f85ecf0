package porttest

import (
	"fmt"
	"testing"

	"github.com/slidegate/slidegate/rule"
	"github.com/slidegate/slidegate/store"
)

// HoldsOfJumps checks on a store that what was used and what is held are moved back together, after the clock had jumped ahead, by
// whatever changes one of them.
func HoldsOfJumps(t *testing.T, open Open) {
	t.Helper()
	const second = rule.Micros(1e6)
	algorithms := []rule.Limit{
		{}, {Quota: 200}, {Algorithm: rule.SlidingLog}, {Algorithm: rule.SlidingWindow}, {Algorithm: rule.SlidingWindow, Segments: 5},
		{Algorithm: rule.FixedWindow}, {Algorithm: rule.TokenBucket},
	}
	w := NewTwin(t, open)
	for i, l := range algorithms {
		l.Quota, l.Window, l.Hold = max(l.Quota, 20), 10*second, 30*second
		l, err := l.Normalize()
		if err != nil {
			t.Fatal(err)
		}
		limit := store.Bind("jumps", string(rune('a'+i)), "jumps", l)
		for _, end := range []store.Request{
			{Op: rule.Settle, ID: 1}, {Op: rule.Settle, ID: 1, Charges: []store.Charge{{Used: 2}}}, {Op: rule.Renew, ID: 1},
			{Op: rule.Take, ID: 1, Hold: true}, {Op: rule.Take, ID: 3, Hold: true}, {Op: rule.Charge}, {Op: rule.GiveBack}, {Op: rule.Take}, {Op: rule.Peek}, {Op: rule.Reset},
		} {
			charge := store.Charge{Limit: limit, Key: end.Op.String(), Cost: 3}
			if len(end.Charges) > 0 {
				charge.Key, charge.Used = "used", end.Charges[0].Used
			}
			if end.Hold {
				charge.Key = fmt.Sprint("held as ", end.ID)
			}
			send := func(r store.Request, cost int64) {
				charge := charge
				charge.Cost, r.Charges = cost, []store.Charge{charge}
				w.Send(r)
			}
			w.Now = 1_767_000_000 * second
			send(store.Request{Op: rule.Take}, 5)
			send(store.Request{Op: rule.Take, ID: 1, Hold: true}, 3)
			send(store.Request{Op: rule.Take, ID: 2, Hold: true}, 4)
			w.flush(t)
			w.Now -= 3600 * second
			send(end, 3)
			for range 50 {
				send(store.Request{Op: rule.Peek}, 19)
				w.flush(t)
				w.Now += second
			}
		}
	}
}

func (w *Twin) flush(t *testing.T) {
	t.Helper()
	if err := w.Compare(); err != nil {
		t.Fatal(err)
	}
}
