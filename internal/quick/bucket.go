package quick

import (
	"math"
	"math/bits"

	"github.com/slidegate/slidegate/rule"
)

// Bucket decides the most common requests to token buckets of one window, as TakePair does for windows. The zero value is
// not usable; call NewBucket.
type Bucket struct{ overWindow divisor }

// NewBucket returns a Bucket for token buckets with this window.
func NewBucket(window rule.Micros) Bucket { return Bucket{newDivisor(window)} }

// Take decides a take of cost at now from a bucket that lacked debt as of start, in 1/Window of a unit, and lacks nothing
// from until on. If it admits the request and cost is not 0, the caller must store newDebt as of at, until newUntil.
// Reciprocal is the Reciprocal of the quota.
//
// It leaves uncommon requests to the rule: a state that is ahead of now by more than a window, a refusal that counts, a cost
// above the burst, numbers that need more than 63 bits. After is when the same cost fits after a refusal, or when a unit is
// free after an admission that took the last one.
func (q *Bucket) Take(l *rule.Limit, reciprocal uint64, start, until rule.Micros, debt uint64, now rule.Micros, cost int64) (
	outcome Outcome, newDebt uint64, newUntil rule.Micros, remaining int64, after, resetAfter, at rule.Micros,
) {
	overQuota := divisor{uint64(l.Quota), reciprocal}
	window := rule.Micros(q.overWindow.by)
	empty := uint64(l.Burst) * uint64(window)
	hi, deepest := bits.Mul64(uint64(min(l.Burst+l.Quota, rule.MaxQuota)), uint64(window))
	if hi > 0 || deepest > math.MaxInt64 || uint64(cost) > uint64(l.Burst) {
		return Undecided, 0, 0, 0, 0, 0, 0
	}
	at = now
	if debt > 0 {
		switch since := now - start; {
		case since < -window:
			return Undecided, 0, 0, 0, 0, 0, 0
		case since < 0:
			at = start
		case now >= until:
			debt = 0
		default:
			hi, refilled := bits.Mul64(uint64(l.Quota), uint64(since))
			if debt -= min(debt, refilled); hi > 0 {
				debt = 0
			}
		}
	}
	charge := uint64(cost) * uint64(window)
	if debt+charge > empty {
		if l.CountRefused && cost > 0 {
			return Undecided, 0, 0, 0, 0, 0, 0
		}
		if debt < empty {
			remaining = int64(q.overWindow.over(empty - debt))
		}
		after = at + min(rule.Micros(overQuota.overUp(debt+charge-empty)), until-at) - now
		resetAfter = at + min(rule.Micros(overQuota.overUp(debt)), until-at) - now
		return Refused, debt, until, remaining, after, resetAfter, at
	}
	if debt == 0 {
		until = 0
	}
	debt += charge
	full := rule.Micros(overQuota.overUp(debt))
	if cost > 0 {
		until = max(until, at+max(window, full))
	}
	if debt > 0 {
		resetAfter = min(at+full, until) - now
	}
	if remaining = int64(q.overWindow.over(empty - debt)); remaining == 0 {
		after = min(at+rule.Micros(overQuota.overUp(debt+uint64(window)-empty)), until) - now
	}
	return Admitted, debt, until, remaining, after, resetAfter, at
}
