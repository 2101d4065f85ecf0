package rule

import "testing"

// A limit that names no algorithm: a log while it is small, parts from the first charge on that needs them.

func leased(l *Limit) { l.Lease = true }

func TestDefaultIsALogUpToAHundred(t *testing.T) {
	play(t, Limit{Quota: 100, Window: minute}, []step{
		{at: 60 * second, cost: 99, want: allowed(1)},
		{at: 60*second + 1, cost: 1, want: allowed(0).next(minute - 1).reset(minute)},
		{at: 119 * second, cost: 1, want: refused(0).retry(second)},
		{at: 120 * second, cost: 99, want: allowed(0).next(1)}, // exactly a window later, unlike parts
	})
}

func TestDefaultIsInPartsAboveAHundred(t *testing.T) {
	play(t, Limit{Quota: 101, Window: minute}, []step{
		{at: 60*second + 999*milli, cost: 101, want: allowed(0).next(60*second + milli).reset(60*second + milli)},
		{at: 121*second - 1, cost: 1, want: refused(0).retry(1)},
		{at: 121 * second, cost: 101, want: allowed(0)},
	})
}

// Raising and lowering a quota forgets no unit, in any order.
func TestQuotaChangesAcrossAHundred(t *testing.T) {
	play(t, Limit{Quota: 100, Window: minute}, []step{
		{at: 60*second + 500*milli, cost: 90, want: allowed(10)},
		{at: 61 * second, set: quota(600), cost: 511, want: refused(510).retry(59*second + 500*milli)}, // a refusal leaves the log
		{at: 61 * second, set: quota(100), cost: 11, want: refused(10).retry(59*second + 500*milli)},
		{at: 61 * second, set: quota(101), cost: 1, want: allowed(10)},                      // 90 at 60 s, 1 at 61 s, in parts
		{at: 62 * second, set: quota(100), cost: 9, want: allowed(0)},                       // they stay parts
		{at: 120*second + 500*milli, cost: 1, want: refused(0).retry(500 * milli)},          // up to a part longer than in a log
		{at: 121 * second, cost: 90, want: allowed(0).next(second)},                         // still parts
		{at: 182 * second, op: Peek, cost: 0, want: allowed(100).granted(0)},                // nothing counts any more
		{at: 182*second + 300*milli, cost: 100, want: allowed(0).next(minute)},              // so it is a log again
		{at: 242*second + 300*milli - 1, set: quota(1), cost: 1, want: refused(0).retry(1)}, // a small quota drops nothing
		{at: 242*second + 300*milli - 1, set: quota(101), cost: 1, want: allowed(0).next(second - 300*milli + 1)},
	})
}

func TestDefaultWithLeaseIsInParts(t *testing.T) {
	play(t, Limit{Quota: 5, Window: minute}, []step{
		{at: 60*second + 500*milli, cost: 1, want: allowed(4).reset(minute)},
		{at: 60*second + 600*milli, set: leased, cost: 1, want: allowed(3).reset(minute + 400*milli)},
	})
}

// Units that cannot be refused, and refusals that count, overwrite none: the 101st unit makes the log parts.
func TestChargesBeyondADefault(t *testing.T) {
	play(t, Limit{Quota: 5, Window: minute}, []step{
		{at: 60*second + 500*milli, op: Charge, cost: 100, want: allowed(0)},
		{at: 61 * second, set: quota(100), cost: 1, want: refused(0).retry(59*second + 500*milli)},
		{at: 61 * second, op: Charge, cost: 1, want: allowed(0)},
		{at: 120*second + 500*milli, cost: 1, want: refused(0).retry(500 * milli)},
		{at: 121 * second, cost: 99, want: allowed(0)},
	})
	play(t, Limit{Quota: 2, Window: minute, CountRefused: true}, []step{
		{at: 60 * second, cost: 2, want: allowed(0)},
		{at: 61 * second, cost: 1, want: refused(0).retry(59 * second)},
		{at: 62 * second, set: quota(4), cost: 1, want: allowed(0)}, // three units and this one
	})
}

// Giving back never takes a unit of another request, although both are in one part after the log has become parts.
func TestGivingBackAfterTheLogBecameParts(t *testing.T) {
	const a, b = 60*second + 100*milli, 60*second + 900*milli
	play(t, Limit{Quota: 10, Window: minute}, []step{
		{at: a, cost: 1, want: allowed(9)},
		{at: b, cost: 1, want: allowed(8)},
		{at: a + minute + 400*milli, set: quota(200), cost: 1, want: allowed(198)}, // the unit of a has left, the one of b is moved
		{at: a + minute + 400*milli, op: GiveBack, cost: 1, back: a, want: allowed(198).granted(0)},
		{at: a + minute + 400*milli, op: GiveBack, cost: 1, back: b, want: allowed(199).granted(1)},
	})
	// The same in parts that never were a log: the part still counts, but the window of the unit has passed.
	play(t, Limit{Quota: 200, Window: minute}, []step{
		{at: a, cost: 1, want: allowed(199)},
		{at: b, cost: 1, want: allowed(198)},
		{at: a + minute - 1, op: GiveBack, cost: 1, back: a, want: allowed(199).granted(1)},
		{at: b + minute, op: GiveBack, cost: 1, back: b, want: allowed(199).granted(0)},
	})
}
