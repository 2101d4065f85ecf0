package replay

import (
	"github.com/slidegate/slidegate/rule"

	"github.com/slidegate/slidegate/internal/quick"
)

// lane is one limit with the states of all its keys.
type lane struct {
	limit    rule.Limit
	pairs    []pair       // the states of undivided windows
	logs     []rule.Log   // the states of logs
	either   []logOrParts // the states of limits that name no algorithm
	other    []rule.State // all other states
	borrowed rule.State   // a pair, a log or parts in the form that the rule expects
	counts   []int64      // of the borrowed state, if either is used
}

// pair is the state of an undivided window: a rule.State without pointers.
type pair struct {
	start  rule.Micros
	counts [2]int64
}

func newLane(limit rule.Limit) lane {
	l := lane{limit: limit}
	if l.usesEither() {
		l.counts = make([]int64, limit.Parts())
	}
	return l
}

// usesPairs reports whether the states of this lane are pairs.
func (l *lane) usesPairs() bool { n := l.limit.Parts(); return n == 1 || n == 2 }

// usesLogs reports whether the states of this lane are logs.
func (l *lane) usesLogs() bool { return l.limit.Algorithm == rule.SlidingLog }

// usesEither reports whether the states of this lane are logs or parts.
func (l *lane) usesEither() bool { return l.limit.Algorithm == rule.DefaultAlgorithm }

// reach allocates the state of a key if needed.
func (l *lane) reach(key uint32) {
	switch {
	case l.usesEither():
		l.either = reach(l.either, key)
	case l.usesLogs():
		l.logs = reach(l.logs, key)
	case !l.usesPairs():
		l.other = reach(l.other, key)
	case int(key) >= len(l.pairs):
		old := len(l.pairs)
		l.pairs = reach(l.pairs, key)
		for i := range l.pairs[old:] {
			l.pairs[old+i].start = rule.Absent
		}
	}
}

// take decides a request under this limit alone.
func (l *lane) take(key uint32, now rule.Micros, cost int64) rule.Answer {
	l.reach(key)
	if cost > 0 && l.canTakePair() && l.pairs[key].start != rule.Absent {
		p := &l.pairs[key]
		outcome, shift, current, previous, remaining, after, reset := quick.TakePair(&l.limit, p.start, p.counts[0], p.counts[1], now, cost)
		if outcome == quick.Admitted {
			p.start += rule.Micros(shift) * l.limit.Window
			p.counts[0], p.counts[1] = current, previous
			return rule.Answer{Allowed: true, Granted: cost, Remaining: remaining, ResetAfter: reset, NextAfter: after, At: now}
		}
		if outcome == quick.Refused {
			return rule.Answer{Remaining: remaining, RetryAfter: after, ResetAfter: reset, At: now}
		}
	}
	answer, _ := l.limit.TakeOne(l.borrow(key), now, cost)
	l.restore(key)
	return answer
}

// canTakePair reports whether TakePair may decide. TakePair does not support windows that start with the first request
// after the end of the last window, instead of at its end.
func (l *lane) canTakePair() bool {
	return quick.IsPair(&l.limit) && (l.limit.Algorithm != rule.FixedWindow || l.limit.Anchor != rule.AnchorFirst)
}

// borrow returns the state of a key for the rule to change. Call restore afterwards.
func (l *lane) borrow(key uint32) *rule.State {
	switch {
	case l.usesPairs():
		p := &l.pairs[key]
		l.borrowed = rule.State{Start: p.start, Counts: p.counts[:l.limit.Parts()]}
	case l.usesLogs():
		l.borrowed = rule.State{Log: l.logs[key]}
	case l.usesEither():
		l.borrowed = l.either[key].state(l.counts)
	default:
		return &l.other[key]
	}
	return &l.borrowed
}

func (l *lane) restore(key uint32) {
	switch {
	case l.usesPairs():
		p := &l.pairs[key]
		p.start = l.borrowed.Start
		if len(l.borrowed.Counts) > 0 && &l.borrowed.Counts[0] != &p.counts[0] {
			copy(p.counts[:], l.borrowed.Counts)
		}
	case l.usesLogs():
		l.logs[key] = l.borrowed.Log
	case l.usesEither():
		l.either[key].keep(&l.borrowed)
	}
}

// expires returns when the state of a key expires, or 0 if there is none.
func (l *lane) expires(key uint32) rule.Micros {
	switch {
	case quick.IsPair(&l.limit):
		if p := &l.pairs[key]; p.start != rule.Absent {
			return p.start + rule.Micros(l.limit.Parts())*l.limit.Window
		}
		return 0
	case l.usesLogs():
		return l.limit.Expires(&rule.State{Log: l.logs[key]})
	case l.usesPairs():
		return l.limit.Expires(&rule.State{Start: l.pairs[key].start, Counts: l.pairs[key].counts[:1]})
	case l.usesEither():
		e := &l.either[key]
		return l.limit.Expires(&rule.State{Log: e.log, Start: e.start(), Counts: l.counts}) // only their number matters
	default:
		return l.limit.Expires(&l.other[key])
	}
}

// horizon returns how long after the latest time seen a state can expire. A state is at most a window ahead of a
// request.
func (l *lane) horizon() rule.Micros {
	if l.limit.Algorithm == rule.TokenBucket {
		return l.limit.Window * rule.Micros(l.limit.Capacity()/l.limit.Quota+3)
	}
	return 4 * l.limit.Window
}

// liveState returns the state of a key for the census. Its size is the size of its times and counts, or of the times of
// all units; for parts of a limit that names no algorithm, it is what the store in memory takes.
func (l *lane) liveState(key uint32) liveState {
	s := liveState{until: l.expires(key)}
	switch {
	case s.until == 0:
	case l.usesLogs():
		s.bytes = 8 * int64(l.logs[key].Len())
	case l.usesEither():
		s.bytes = l.either[key].bytes()
	case l.limit.Algorithm == rule.TokenBucket:
		s.bytes = 32
	default:
		s.bytes = 8 + 8*int64(l.limit.Parts())
	}
	return s
}
