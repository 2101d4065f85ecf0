package rule

import "testing"

// Units that reservations hold count beside those that were used, until they are settled, cancelled or not renewed in time.

func TestHold(t *testing.T) {
	for _, algorithm := range []Limit{
		{}, {Algorithm: SlidingLog}, {Algorithm: SlidingWindow}, {Algorithm: FixedWindow}, {Algorithm: TokenBucket},
	} {
		l := algorithm
		l.Quota, l.Window, l.Hold = 10, second, 30*second
		play(t, l, []step{
			{at: 60 * second, cost: 5, id: 1, hold: true, want: allowed(5).reset(30 * second)},
			{at: 60 * second, cost: 5, id: 2, hold: true, want: allowed(0).next(30 * second).reset(30 * second)},
			{at: 60 * second, cost: 5, id: 2, hold: true, want: allowed(0)}, // again: not counted twice
			{at: 64 * second, cost: 1, want: refused(0).held().retry(26 * second)},
			{at: 64 * second, op: Settle, cost: 5, used: 3, id: 1, want: allowed(2).granted(2)}, // charged now, and until the window has passed
			{at: 64 * second, cost: 3, id: 3, hold: true, want: refused(2).held()},
			{at: 67 * second, op: Renew, id: 2, want: allowed(5).granted(5).reset(30 * second)},
			{at: 67 * second, op: Settle, cost: 5, used: 0, id: 2, want: allowed(10).granted(5)},
			{at: 67 * second, op: Renew, id: 2, want: refused(10).granted(0).retry(Never)},
		})
	}
}

// A hold that was not renewed has ended: renewing it does not take it again, and settling it charges what was used.
func TestLostHold(t *testing.T) {
	play(t, Limit{Quota: 10, Window: second, Hold: 5 * second}, []step{
		{at: 60 * second, cost: 8, id: 1, hold: true, want: allowed(2)},
		{at: 65*second - 1, cost: 3, want: refused(2).held().retry(1)},
		{at: 65 * second, cost: 3, want: allowed(7)},
		{at: 65 * second, op: Renew, id: 1, want: refused(7).granted(0).retry(Never)},
		{at: 66 * second, op: Settle, cost: 8, used: 8, id: 1, want: allowed(2).granted(-8)},
	})
}

// The edge of a window, another quota and a plain charge leave what is held as it is; a reset does not.
func TestHoldsOutlastTheWindow(t *testing.T) {
	play(t, Limit{Algorithm: FixedWindow, Quota: 10, Window: 10 * second, Hold: minute}, []step{
		{at: 60 * second, cost: 4, id: 1, hold: true, want: allowed(6)},
		{at: 69 * second, cost: 6, want: allowed(0).next(second)},
		{at: 70 * second, cost: 7, want: refused(6).held().retry(50 * second)},
		{at: 70 * second, set: quota(3), cost: 1, want: refused(0).held().retry(50 * second)},
		{at: 70 * second, set: func(l *Limit) { l.Hold, l.Quota = 0, 5 }, cost: 1, want: allowed(0).next(10 * second)},
		{at: 71 * second, op: Reset, want: allowed(5)},
	})
}

// What is held and what was used end at different times: the cost fits when enough of both has ended.
func TestRetryAfterWithHolds(t *testing.T) {
	play(t, Limit{Algorithm: SlidingLog, Quota: 10, Window: 10 * second, Hold: 4 * second}, []step{
		{at: 60 * second, cost: 3, want: allowed(7)},
		{at: 61 * second, cost: 2, id: 1, hold: true, want: allowed(5)},                  // until 65 s
		{at: 62 * second, cost: 5, id: 2, hold: true, want: allowed(0).next(3 * second)}, // until 66 s
		{at: 63 * second, cost: 2, want: refused(0).held().retry(2 * second)},
		{at: 63 * second, cost: 7, want: refused(0).held().retry(3 * second)},
		{at: 63 * second, cost: 8, want: refused(0).held().retry(7 * second)},
		{at: 63 * second, cost: 11, want: refused(0).held().retry(Never)},
	})
}

func TestTooManyHolds(t *testing.T) {
	l := normal(t, Limit{Quota: 5_000, Window: second, Hold: minute})
	var s State
	for id := range ID(MaxHolds) {
		decideStep(t, &l, &s, step{at: 60*second + Micros(id), cost: 1, id: id + 1, hold: true})
	}
	playFrom(t, l, s, []step{
		{at: 61 * second, cost: 1, id: 9_999, hold: true, want: refused(4_000).held().flagged(HoldsFull).retry(59 * second)},
		{at: 61 * second, cost: 1, want: allowed(3_999)}, // nothing to hold
		{at: 61 * second, op: Settle, cost: 1, id: 7, want: allowed(4_000).granted(1)},
		{at: 61 * second, cost: 1, id: 9_999, hold: true, want: allowed(3_999)},
	})
}

// Holds from a time that the clock had jumped to are moved back with it.
func TestHoldsOfAClockThatJumped(t *testing.T) {
	play(t, Limit{Quota: 10, Window: second, Hold: 5 * second}, []step{
		{at: 100 * second, cost: 8, id: 1, hold: true, want: allowed(2)},
		{at: 60 * second, cost: 3, want: refused(2).moved().held().retry(5 * second)},
		{at: 65*second - 1, cost: 3, want: refused(2).held().retry(1)},
		{at: 65 * second, cost: 3, want: allowed(7)},
	})
}

// They are not lost if what was used is ahead of the clock too, by less than a window.
func TestHoldsAheadOfUnitsThatAreAhead(t *testing.T) {
	play(t, Limit{Quota: 10, Window: minute, Hold: 10 * second}, []step{
		{at: 100 * second, cost: 1, want: allowed(9)},
		{at: 155 * second, cost: 9, id: 1, hold: true, want: allowed(0)},
		{at: 50 * second, cost: 9, want: refused(0).moved().held().retry(110*second - 50*second)},
		{at: 50 * second, op: Renew, id: 1, want: allowed(0).granted(9)},
	})
}

// A settlement that cannot be remembered leaves the hold, so that it can be made later.
func TestHoldWithoutMemory(t *testing.T) {
	play(t, Limit{Quota: 10, Window: second, Hold: minute}, []step{
		{at: 60 * second, cost: 5, id: 1, hold: true, want: allowed(5)},
		{at: 61 * second, op: Settle, cost: 5, used: 5, id: 1, memo: &Memo{Full: true}, want: allowed(5).granted(0).unsettled()},
		{at: 62 * second, op: Settle, cost: 5, used: 5, id: 1, memo: &Memo{}, want: allowed(5).granted(0)},
	})
}

// A call with an ID counts once; a refusal is not remembered.
func TestCallCountsOnce(t *testing.T) {
	memo, refusal, cancelled := &Memo{}, &Memo{}, &Memo{}
	known := func(m *Memo) func(*Limit) {
		return func(*Limit) { *m = Memo{Known: true, Record: m.Record} }
	}
	play(t, Limit{Quota: 10, Window: minute}, []step{
		{at: 60 * second, cost: 4, id: 1, once: true, memo: memo, want: allowed(6)},
		{at: 61 * second, set: known(memo), cost: 4, id: 1, once: true, memo: memo, want: allowed(6).repeated().deciding(60 * second)},
		{at: 61 * second, cost: 9, id: 1, once: true, memo: memo, want: allowed(6).repeated().granted(4)}, // what the first did
		{at: 61 * second, cost: 7, id: 2, once: true, memo: refusal, want: refused(6).retry(59 * second)},
		{at: 62 * second, cost: 6, id: 2, once: true, memo: refusal, want: allowed(0)},
		{at: 63 * second, op: Settle, id: 1, once: true, memo: memo, want: allowed(4).granted(4)}, // its cancellation needs only the id
		{at: 63 * second, set: known(memo), cost: 4, id: 1, once: true, memo: memo, want: refused(4).repeated().retry(Never).granted(0)},
		{at: 64 * second, op: Settle, id: 3, once: true, memo: cancelled, want: allowed(4).granted(0)}, // before its call
		{at: 65 * second, set: known(cancelled), cost: 1, id: 3, once: true, memo: cancelled, want: refused(4).repeated().retry(Never).granted(0)},
		{at: 65 * second, cost: 1, id: 4, once: true, memo: &Memo{Full: true}, want: allowed(3).flagged(NotOnce)},
	})
}

// A call that holds its units, and one that charges them although the limit has Hold, are both cancelled by their ID.
func TestCancelByIDWithHold(t *testing.T) {
	held, charged := &Memo{}, &Memo{}
	play(t, Limit{Quota: 10, Window: minute, Hold: minute}, []step{
		{at: 60 * second, cost: 4, id: 1, hold: true, once: true, memo: held, want: allowed(6)},
		{at: 60 * second, cost: 3, id: 2, once: true, memo: charged, want: allowed(3)},
		{at: 61 * second, set: func(*Limit) { held.Known, charged.Known = true, true }, op: Settle, id: 2, once: true, memo: charged, want: allowed(6).granted(3)},
		{at: 61 * second, op: Settle, id: 1, once: true, memo: held, want: allowed(10).granted(4)},
	})
}

func TestInvalidHolds(t *testing.T) {
	for _, l := range []Limit{
		{Hold: minute, Lease: true}, {Hold: minute, CountRefused: true}, {Hold: minute, Algorithm: InFlight}, {Hold: 999}, {Hold: -1},
	} {
		l.Quota, l.Window = 10, minute
		if _, err := l.Normalize(); err == nil {
			t.Errorf("%+v: got no error", l)
		}
	}
}
