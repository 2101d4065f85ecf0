package memstore

import (
	"math"
	"math/bits"
	"time"

	"github.com/slidegate/slidegate/internal/quick"
	"github.com/slidegate/slidegate/rule"
)

// bucketForm holds token buckets, one line each. What is missing from a bucket is its debt, in 1/window of a unit, in one
// word.
//
// Every atomic write costs as much as a compare-and-swap, so most takes write only the control word. Its fields describe
// what happened since the other words were written: how much later the start is, and how many units were taken. The debt
// has grown by these units, and shrunk by what the quota refills in that time; or it is these units alone, if the bucket
// was full in between. If that is not what the rule computes (the quota is a different one), or if a field is too narrow,
// the other words are written again.
type bucketForm struct {
	limit  rule.Limit // of the shape: its quota and burst are meaningless
	window uint64
	quick  quick.Bucket
}

// The words of a bucket, after hash and control. If the debt does not fit in a word, or the state was written by an older
// version, the debt word contains the missing whole units and the rest word the fraction plus 1; otherwise the rest word is
// 0. A slot of zeros is a full bucket.
const (
	bucketStart = 2 + iota
	bucketDebt
	bucketLife // how long after the start the state ends
	bucketRest
	bucketQuota      // what a microsecond has refilled since the words were written, or 0
	bucketReciprocal // the Reciprocal of bucketQuota

	bucketUnitsAt   = fieldsAt
	bucketUnitsMask = uint64(1)<<6 - 1
	bucketSinceAt   = bucketUnitsAt + 6
	bucketSinceMask = uint64(1)<<24 - 1 // a quarter of a minute
	bucketFull      = uint64(1) << (bucketSinceAt + 24)
	bucketFields    = bucketUnitsMask<<bucketUnitsAt | bucketSinceMask<<bucketSinceAt | bucketFull
)

func newBucketForm(limit *rule.Limit) *bucketForm {
	return &bucketForm{limit: *limit, window: uint64(limit.Window), quick: quick.NewBucket(limit.Window)}
}

func (f *bucketForm) lines() int { return 1 }

// debtAfter returns a debt after units were taken and since microseconds refilled quota each.
func (f *bucketForm) debtAfter(debt, units, quota, since uint64) uint64 {
	return debt + units*f.window - quota*since
}

func (f *bucketForm) take(l *line, h uint64, limit *rule.Limit, clock *clock, cost int64, notes *notes) (
	outcome quick.Outcome, remaining int64, after, resetAfter, at rule.Micros,
) {
	for range maxTries {
		control := l[controlWord].Load()
		if control&busy != 0 {
			if control == moved {
				break
			}
			stepBack()
			continue
		}
		base, owed, life := l[bucketStart].Load(), l[bucketDebt].Load(), rule.Micros(l[bucketLife].Load())
		quota, reciprocal := l[bucketQuota].Load(), l[bucketReciprocal].Load()
		if l[bucketRest].Load() != 0 || l[hashWord].Load() != h {
			break
		}
		same := quota == uint64(limit.Quota)
		if !same {
			reciprocal = quick.Reciprocal(limit.Quota)
		}
		full := control & bucketFull
		if full != 0 {
			owed, quota = 0, 0
		}
		units, since := control>>bucketUnitsAt&bucketUnitsMask, control>>bucketSinceAt&bucketSinceMask
		start := rule.Micros(base + since)
		var now rule.Micros // read after control, whose writer had read the clock before; this is clock.read, inlined
		if clock.now == nil {
			now = clock.wallBase + rule.Micros(time.Since(clock.base).Microseconds())
		} else {
			now = clock.readGiven()
		}
		outcome, debt, until, remaining, after, resetAfter, at := f.quick.Take(
			limit, reciprocal, start, start+life, f.debtAfter(owed, units, quota, since), now, cost)
		switch {
		case outcome == quick.Undecided:
			return quick.Undecided, 0, 0, 0, 0
		case outcome == quick.Refused || cost == 0:
			if l[controlWord].Load() == control {
				return outcome, remaining, after, resetAfter, at
			}
			continue
		}
		units, since = units+uint64(cost), uint64(at)-base
		if debt != f.debtAfter(owed, units, quota, since) {
			units, full = uint64(cost), bucketFull
		}
		switch {
		case !same || units > bucketUnitsMask || since > bucketSinceMask || until-at != life ||
			full != 0 && debt != f.debtAfter(0, units, 0, since):
			if l[controlWord].CompareAndSwap(control, control|busy) {
				f.write(l, at, until, debt, 0)
				l.change(bucketQuota, uint64(limit.Quota))
				l.change(bucketReciprocal, reciprocal)
				if notes != nil {
					notes.take(h, cost, now, true)
				}
				l.release(control &^ bucketFields)
				return outcome, remaining, after, resetAfter, at
			}
		case notes.swap(&l[controlWord], control, control|busy,
			nextVersion(control&^bucketFields|full|units<<bucketUnitsAt|since<<bucketSinceAt), h, cost, now):
			return outcome, remaining, after, resetAfter, at
		}
		stepBack()
	}
	return quick.Undecided, 0, 0, 0, 0
}

// write sets the words to a state. The fields that belong to it are 0.
func (f *bucketForm) write(l *line, start, until rule.Micros, debt, rest uint64) {
	put(&l[bucketStart], uint64(start))
	put(&l[bucketDebt], debt)
	l.change(bucketLife, uint64(until-start))
	l.change(bucketRest, rest)
}

// read returns the state.
func (f *bucketForm) read(l *line, control uint64) (s rule.State) {
	owed, quota := l[bucketDebt].Load(), l[bucketQuota].Load()
	if control&bucketFull != 0 {
		owed, quota = 0, 0
	}
	units, since := control>>bucketUnitsAt&bucketUnitsMask, control>>bucketSinceAt&bucketSinceMask
	s.Start = rule.Micros(l[bucketStart].Load() + since)
	s.Until = s.Start + rule.Micros(l[bucketLife].Load())
	s.Missing, s.Rest = int64(owed), int64(l[bucketRest].Load())-1
	if s.Rest < 0 {
		debt := f.debtAfter(owed, units, quota, since)
		s.Missing, s.Rest = int64(debt/f.window), int64(debt%f.window)
	}
	return s
}

func (f *bucketForm) load(l *line, control uint64, s *rule.State) {
	state := f.read(l, control)
	s.Start, s.Until, s.Missing, s.Rest = state.Start, state.Until, state.Missing, state.Rest
}

func (f *bucketForm) store(l *line, control uint64, s *rule.State) (newControl uint64, ok storeResult) {
	hi, debt := bits.Mul64(uint64(s.Missing), f.window)
	if hi == 0 && debt <= math.MaxInt64-uint64(s.Rest) && uint64(s.Rest) < f.window {
		f.write(l, s.Start, s.Until, debt+uint64(s.Rest), 0)
	} else {
		f.write(l, s.Start, s.Until, uint64(s.Missing), uint64(s.Rest)+1)
	}
	return control &^ bucketFields, stored
}

func (f *bucketForm) clear(l *line, control uint64) (newControl uint64) {
	f.write(l, 0, 0, 0, 0)
	return control &^ bucketFields
}

func (f *bucketForm) expires(l *line, control uint64) rule.Micros {
	s := f.read(l, control)
	return f.limit.Expires(&s)
}

// weight subtracts what was refilled at the quota that last charged the bucket.
func (f *bucketForm) weight(l *line, control uint64, now rule.Micros) int64 {
	s := f.read(l, control)
	if f.limit.Expires(&s) <= now {
		return 0
	}
	hi, refilled := bits.Mul64(l[bucketQuota].Load(), uint64(max(0, now-s.Start)))
	if hi > 0 {
		return 0
	}
	return max(0, s.Missing-int64(refilled/f.window))
}
