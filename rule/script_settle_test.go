package rule

import (
	"slices"
	"testing"
)

// Scripts for settlements: what was reserved is replaced with what was used, once.

func TestSettle(t *testing.T) {
	for _, l := range []Limit{
		{Algorithm: SlidingWindow, Quota: 100, Window: minute}, {Algorithm: SlidingLog, Quota: 100, Window: minute},
		{Algorithm: FixedWindow, Quota: 100, Window: minute}, {Algorithm: FixedWindow, Quota: 100, Calendar: Month},
		{Algorithm: TokenBucket, Quota: 100, Window: minute},
	} {
		memo, other := &Memo{}, &Memo{}
		known := func(l *Limit) { *memo = Memo{Known: true, Record: memo.Record} }
		play(t, l, []step{
			{at: 600 * second, cost: 70, want: allowed(30)},
			{at: 600 * second, op: Settle, cost: 70, used: 20, back: 600 * second, id: 1, memo: memo, want: allowed(80).granted(50)},
			{at: 600 * second, cost: 10, want: allowed(70)},
			// Again, with other numbers: nothing changes, and the first answer is repeated.
			{at: 600 * second, set: known, op: Settle, cost: 70, used: 20, back: 600 * second, id: 1, memo: memo, want: allowed(70).granted(50).repeated()},
			{at: 600 * second, op: Settle, cost: 70, used: 99, back: 600 * second, id: 1, memo: memo, want: allowed(70).granted(50).repeated()},
			// More than was reserved, even more than is left.
			{at: 600 * second, op: Settle, cost: 10, used: 90, back: 600 * second, id: 2, memo: other, want: allowed(0).granted(-80)},
			// A settlement that the store cannot remember is not made.
			{at: 600 * second, op: Settle, cost: 10, used: 0, back: 600 * second, id: 3, memo: &Memo{Full: true}, want: allowed(0).granted(0).unsettled()},
		})
		if !memo.Known || memo.Changed || !slices.Equal(memo.Record, []int64{wasSettled, 50}) || !other.Changed || !slices.Equal(other.Record, []int64{wasSettled, -80}) {
			t.Errorf("%v: remembered %+v and %+v", l.Algorithm, memo, other)
		}
	}
}

// Slots are released by their ID, whether the settlement is known, new, or cannot be remembered.
func TestSettleSlots(t *testing.T) {
	memo := &Memo{}
	play(t, Limit{Algorithm: InFlight, Quota: 2, Window: 30 * second}, []step{
		{at: 100 * second, cost: 1, id: 1, want: allowed(1)},
		{at: 100 * second, cost: 1, id: 2, want: allowed(0)},
		{at: 101 * second, op: Settle, cost: 1, used: 1, back: 100 * second, id: 1, memo: memo, want: allowed(1).granted(1)},
		{at: 101 * second, op: Settle, cost: 1, used: 1, back: 100 * second, id: 1, memo: memo, want: allowed(1).granted(0)},
		{at: 101 * second, op: Settle, cost: 1, id: 2, memo: &Memo{Full: true}, want: allowed(2).granted(1)},
	})
	if memo.Changed {
		t.Error("a settlement of slots only must not be remembered")
	}
}

// Either all of a reservation is settled or none of it, and the result for each charge is remembered.
func TestSettleSeveral(t *testing.T) {
	limits := []Limit{
		normal(t, Limit{Algorithm: InFlight, Quota: 5, Window: 30 * second}),
		normal(t, Limit{Algorithm: SlidingLog, Quota: 10, Window: minute}),
		normal(t, Limit{Algorithm: TokenBucket, Quota: 1000, Window: minute}),
		normal(t, Limit{Quota: 500, Calendar: Day}),
	}
	states, answers := make([]State, 4), make([]Answer, 4)
	items := make([]Item, 4)
	fill := func() {
		for i := range items {
			cost, used := []int64{1, 1, 700, 100}[i], []int64{0, 1, 900, 40}[i]
			items[i] = Item{Limit: &limits[i], State: &states[i], Cost: cost, Used: used, At: 100 * second, ID: 7}
		}
	}
	fill()
	Decide(Take, items, 100*second, answers)
	memo := &Memo{Full: true}
	fill()
	DecideOnce(Settle, false, items, memo, 100*second, answers)
	if memo.Changed || answers[1].Flags&Unsettled == 0 || answers[0].Granted != 1 || answers[2].Remaining != 300 || answers[3].Remaining != 400 {
		t.Fatalf("%+v: %+v", memo, answers)
	}
	memo = &Memo{Record: []int64{9, 9, 9, 9, 9}} // left by an earlier settlement
	fill()
	DecideOnce(Settle, false, items, memo, 100*second, answers)
	if want := []int64{wasSettled, 0, 0, -200, 60}; !memo.Changed || !slices.Equal(memo.Record, want) {
		t.Fatalf("remembered: %+v, want %v", memo, want)
	}
	if items[1].Changed || !items[2].Changed || !items[3].Changed {
		t.Errorf("changed: %v, %v, %v; an item used as reserved must not change", items[1].Changed, items[2].Changed, items[3].Changed)
	}
	for i, want := range []int64{5, 9, 100, 460} {
		if answers[i].Remaining != want || answers[i].Flags != 0 {
			t.Errorf("limit %d: %+v, want %d left", i, answers[i], want)
		}
	}
	for i, want := range []Micros{30*second + 500*milli, 61 * second, 2 * minute, 32*60*minute + 32*minute} {
		if memory := limits[i].Memory(); memory != want {
			t.Errorf("limit %d is remembered for %d, want %d", i, memory, want)
		}
	}
}

func TestRemembered(t *testing.T) {
	for _, c := range []struct{ quota, want int64 }{{1, 1_000}, {250, 1_000}, {5_000, 20_000}, {1 << 40, 250_000}} {
		l := normal(t, Limit{Algorithm: SlidingWindow, Quota: c.quota, Window: minute})
		if n := l.Settlements(); n != c.want {
			t.Errorf("a quota of %d: %d settlements, want %d", c.quota, n, c.want)
		}
	}
}
