package rule

import "testing"

// What was used stays used if units are given back, settled, charged or refused under another limit than before.

const (
	hour  = 60 * minute
	start = 1000 * hour
)

func size(quota, burst int64) func(*Limit) {
	return func(l *Limit) { l.Quota, l.Burst, l.CountRefused = quota, burst, false }
}

func counting(quota, burst int64) func(*Limit) {
	return func(l *Limit) { l.Quota, l.Burst, l.CountRefused = quota, burst, true }
}

// Each reservation from before an upgrade gives back its own units. A charge that is deeper than the old limit allows stays.
func TestBucketSettledAfterAnUpgrade(t *testing.T) {
	small, large := size(10, 10), size(1000, 1000)
	play(t, Limit{Algorithm: TokenBucket, Quota: 10, Burst: 10, Window: hour}, []step{
		{at: start, cost: 2, want: allowed(8)},
		{at: start, cost: 2, want: allowed(6)},
		{at: start, cost: 2, want: allowed(4)},
		{at: start, set: large, cost: 994, want: allowed(0).reset(hour)},
		{at: start, set: small, op: Settle, cost: 2, used: 0, back: start, want: allowed(0).granted(2)},
		{at: start, set: large, op: TakeUpTo, cost: 1000, want: allowed(0).granted(2).reset(hour)},
		{at: start, set: small, op: Settle, cost: 2, used: 1, back: start, want: allowed(0).granted(1)},
		{at: start, set: large, op: TakeUpTo, cost: 1000, want: allowed(0).granted(1).reset(hour)},
		{at: start, set: small, op: Settle, cost: 2, used: 9, back: start, want: allowed(0).granted(-7)},
		{at: start, set: small, op: Charge, cost: 5, want: allowed(0)},
		{at: start, set: counting(10, 10), cost: 5, want: refused(0)},
		{at: start, set: small, op: GiveBack, cost: 3, want: allowed(0).granted(3)},
		{at: start, set: large, op: Peek, cost: 4, want: refused(3).retry(3_600 * milli)},
	})
}

// Settling a reservation from before a downgrade leaves the end of the bucket where it is, or moves it farther away.
func TestBucketSettledAfterADowngrade(t *testing.T) {
	large, lowered := size(1000, 1000), size(10, 1000)
	for _, settled := range []struct {
		used, back int64
		reset      Micros
	}{{0, 5, 99*hour + 30*minute}, {4, 1, 99*hour + 54*minute}, {5, 0, 100 * hour}, {900, -895, 100 * hour}} {
		play(t, Limit{Algorithm: TokenBucket, Quota: 1000, Burst: 1000, Window: hour}, []step{
			{at: start, cost: 5, want: allowed(995)},
			{at: start, set: lowered, cost: 995, want: allowed(0).reset(100 * hour)},
			{at: start, set: large, op: Settle, cost: 5, used: settled.used, back: start, want: allowed(max(0, settled.back)).granted(settled.back)},
			{at: start, set: lowered, op: Peek, want: want{allowed: settled.back >= 0, remaining: max(0, settled.back)}.reset(settled.reset)},
			{at: start + hour + 2*second, cost: 1000, want: refused(max(0, settled.back+10))},
		})
	}
}

// What is given back under the old limit is not refilled at its rate.
func TestBucketGivenBackLater(t *testing.T) {
	large, lowered := size(1000, 1000), size(10, 1000)
	play(t, Limit{Algorithm: TokenBucket, Quota: 1000, Burst: 1000, Window: hour}, []step{
		{at: start, cost: 600, want: allowed(400)},
		{at: start, set: lowered, cost: 400, want: allowed(0)},
		{at: start + 30*minute, op: Peek, want: allowed(5)},
		{at: start + 30*minute, set: large, op: Settle, cost: 600, used: 0, back: start, want: allowed(600).granted(100)},
		{at: start + 30*minute, set: lowered, op: Peek, want: allowed(105).reset(89*hour + 30*minute)},
		{at: start + 30*minute, set: large, op: Settle, cost: 500, used: 0, back: start, want: allowed(600).granted(0)}, // refilled by now
		{at: start + 30*minute, set: lowered, op: Peek, want: allowed(105)},
	})
}

// Giving back, a refusal that counts and a refusal that moves the state back with the clock do not keep a key out longer.
func TestBucketEndsWhenItWasToEnd(t *testing.T) {
	lowered := size(10, 1000)
	drained := step{at: start, cost: 1000, want: allowed(0)}
	for _, then := range []step{
		{at: start + 59*minute, op: GiveBack, cost: 1, want: allowed(10).granted(1)},
		{at: start + 59*minute, op: Settle, cost: 9, used: 8, back: start + 59*minute, want: allowed(10).granted(1)},
		{at: start + 59*minute, set: counting(10, 500), cost: 1, want: refused(0).retry(minute)},
		{at: start + 59*minute, cost: 20, want: refused(9).retry(minute)},
	} {
		play(t, Limit{Algorithm: TokenBucket, Quota: 1000, Burst: 1000, Window: hour}, []step{
			drained, {at: start + 59*minute, set: lowered, op: Peek, cost: 500, want: refused(9).retry(minute)}, then,
			{at: start + 59*minute, set: lowered, op: Peek, cost: 500, want: refused(9 + max(0, then.want.remaining-9)).retry(minute)},
			{at: start + hour, cost: 1000, want: allowed(0)},
		})
	}
	for _, then := range []step{
		{at: start - 9*hour, cost: 1, want: refused(0).moved().retry(hour)}, {at: start - 9*hour, op: GiveBack, cost: 1, want: allowed(0).granted(1).moved().next(hour)},
		{at: start - 9*hour, set: counting(10, 500), cost: 1, want: refused(0).moved().retry(hour)},
	} {
		play(t, Limit{Algorithm: TokenBucket, Quota: 1000, Burst: 1000, Window: hour}, []step{
			drained, {at: start - 9*hour, set: size(10, 500), op: Peek, cost: 1, want: refused(0).moved().retry(hour)}, then,
			{at: start - 8*hour - 1, set: size(10, 500), op: Peek, cost: 1, want: refused(0).retry(1)},
			{at: start - 8*hour, op: Peek, cost: 500, want: allowed(500)},
		})
	}
}

// One charge after a downgrade ends with the debt that its own limit can have, not with that of the larger limit.
func TestBucketOverdrawnByADowngrade(t *testing.T) {
	play(t, Limit{Algorithm: TokenBucket, Quota: 1000, Burst: 1000, Window: hour}, []step{
		{at: start, cost: 1000, want: allowed(0)},
		{at: start, set: size(1, 1), op: Charge, cost: 1, want: allowed(0).reset(2 * hour).next(2 * hour)},
		{at: start + 2*hour - 1, set: size(1, 1), cost: 1, want: refused(0).retry(1)},
		{at: start + 2*hour, cost: 1, want: allowed(0)},
	})
	// The deepest debt that can be stored, under a limit that would need 285,000 years for it.
	play(t, Limit{Algorithm: TokenBucket, Quota: MaxQuota, Window: MaxWindow}, []step{
		{at: start, cost: MaxQuota, want: allowed(0).reset(MaxWindow)},
		{at: start, set: size(1, 1), op: Peek, cost: 1, want: refused(0).retry(MaxWindow).reset(MaxWindow)},
		{at: start, cost: 1, want: refused(0).retry(MaxWindow)},
	})
}

// Settling after an upgrade drops no unit of a log, whichever way it goes.
func TestLogSettledAfterAnUpgrade(t *testing.T) {
	small, large := quota(10), quota(1000)
	for _, settled := range []struct{ used, back, left int64 }{{3, -1, 0}, {50, -48, 0}, {2, 0, 0}, {1, 1, 1}, {0, 2, 2}} {
		play(t, Limit{Algorithm: SlidingLog, Quota: 10, Window: hour}, []step{
			{at: start, cost: 2, want: allowed(8)},
			{at: start + second, set: large, cost: 998, want: allowed(0)},
			{at: start + minute, set: small, op: Settle, cost: 2, used: settled.used, back: start, want: allowed(0).granted(settled.back)},
			{at: start + minute, op: Peek, cost: 1, want: refused(0)},
			{at: start + minute, set: large, op: TakeUpTo, cost: 1000, want: want{allowed: settled.left > 0}.granted(settled.left)},
		})
	}
}

// A quota that is lowered for a moment makes a log forget nothing.
func TestLogLoweredForAMoment(t *testing.T) {
	counted := func(l *Limit) { l.Quota, l.CountRefused = 10, true }
	for _, then := range []struct {
		step
		left int64
	}{
		{step{op: Charge, cost: 1, want: allowed(0)}, 0},
		{step{op: Charge, cost: 5000, want: allowed(0)}, 0},
		{step{op: GiveBack, cost: 1, want: allowed(0).granted(1)}, 1},
		{step{op: GiveBack, cost: 700, want: allowed(0).granted(700)}, 700},
		{step{op: GiveBack, cost: 700, back: start + second, want: allowed(0).granted(400)}, 400},
		{step{cost: 1, want: refused(0)}, 0},
		{step{cost: 0, want: refused(0)}, 0},
		{step{set: counted, cost: 1, want: refused(0).retry(hour)}, 0},
		{step{set: counted, cost: 10, want: refused(0).retry(hour)}, 0},
	} {
		lowered := then.step
		if lowered.at = start + minute; lowered.set == nil {
			lowered.set = quota(10)
		}
		if lowered.want.retryIs != nil && lowered.cost < 10 { // one unit at start+minute, then those at start+second
			lowered.want = lowered.want.retry(59*minute + second)
		}
		play(t, Limit{Algorithm: SlidingLog, Quota: 1000, Window: hour}, []step{
			{at: start, cost: 600, want: allowed(400)},
			{at: start + second, cost: 400, want: allowed(0)},
			lowered,
			{at: start + minute, set: func(l *Limit) { l.Quota, l.CountRefused = 1000, false }, op: Peek, want: allowed(then.left)},
		})
	}
}

// Releasing and renewing under fewer slots than are held drops no other slot.
func TestSlotsUnderAnotherNumber(t *testing.T) {
	few, many := quota(1), quota(5)
	play(t, Limit{Algorithm: InFlight, Quota: 5, Window: hour}, []step{
		{at: start, cost: 1, id: 1, want: allowed(4)},
		{at: start, cost: 1, id: 2, want: allowed(3)},
		{at: start, cost: 1, id: 3, want: allowed(2)},
		{at: start, cost: 1, id: 4, want: allowed(1)},
		{at: start + 1, set: few, op: Renew, id: 1, want: allowed(0).granted(1)},
		{at: start + 1, set: many, op: Peek, want: allowed(1)},
		{at: start + 1, set: few, op: Settle, cost: 1, id: 2, want: allowed(0).granted(1)},
		{at: start + 1, set: many, op: Peek, want: allowed(2)},
		{at: start + 1, set: few, op: GiveBack, cost: 1, back: start, id: 2, want: allowed(0).granted(0)},
		{at: start + 1, op: GiveBack, cost: 1, back: start, id: 3, want: allowed(0).granted(1)},
		{at: start + 1, cost: 1, id: 9, want: refused(0)},
		{at: start + 1, set: many, op: Peek, want: allowed(3)},
		{at: start + 1, op: Renew, id: 4, want: allowed(3).granted(1)},
	})
}
