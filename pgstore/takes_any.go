package pgstore

import (
	"math/bits"
	"slices"

	"github.com/slidegate/slidegate/internal/port"
	"github.com/slidegate/slidegate/rule"
	"github.com/slidegate/slidegate/store"
)

// The fast path for windows in several parts, logs and buckets, alone or together with windows in one part.

const (
	fastReplies = 6       // the minimum that take_any and take_any_many return for a run
	maxDebt     = 1 << 62 // of a bucket, in 1/window of a unit: the functions have 63 bits
)

// isFast reports whether take_any and take_any_many support a limit.
func isFast(l *rule.Limit) bool {
	switch l.Algorithm {
	case rule.TokenBucket:
		high, low := bits.Mul64(uint64(l.Burst), uint64(l.Window))
		return high == 0 && low < maxDebt
	case rule.InFlight:
		return false
	default:
		return l.Calendar == 0
	}
}

// What take_any and take_any_many return beside the number of admitted requests.
const (
	fastMoved    = 1 << iota
	fastParts           // no algorithm named: the state is in parts
	fastRolled          // what is returned is as of now, and not as it was read
	fastAdmitted = iota // by how many bits the number is shifted
)

// areDefault reports whether no limit of a batch names an algorithm.
func (t *roundTrip) areDefault(batch []store.Request) bool {
	return !slices.ContainsFunc(t.entries, func(e entry) bool {
		return batch[t.parts[e.from].request].Charges[0].Limit.Rule().Algorithm != rule.DefaultAlgorithm
	})
}

// planAny encodes one run for take_any, or several for take_any_many.
func (t *roundTrip) planAny(s *Store, batch []store.Request) {
	if len(t.entries) > 1 {
		t.numbers = append(t.numbers, s.now(), s.commit())
	}
	for _, e := range t.entries {
		t.addresses = append(t.addresses, t.parts[e.from].address)
		t.planRun(&batch[t.parts[e.from].request].Charges[0], e.to-e.from)
	}
	if len(t.entries) > 1 {
		t.args = append(t.args, t.addresses, t.numbers)
		return
	}
	t.args = append(t.args, t.addresses[0], s.now(), s.commit())
	for _, n := range t.numbers {
		t.args = append(t.args, n)
	}
}

func (t *roundTrip) planRun(charge *store.Charge, times int) {
	l := charge.Limit.Rule()
	const (
		window = 0
		log    = 1
		bucket = 3
		none   = 5
	)
	kind, part, capacity, unit := int64(window), int64(l.Window), l.Quota, charge.Cost
	switch l.Algorithm {
	case rule.SlidingLog:
		kind = log
	case rule.TokenBucket:
		kind, capacity = bucket, l.Burst*int64(l.Window)
		if unit = capacity + 1; charge.Cost <= l.Burst {
			unit = charge.Cost * int64(l.Window)
		}
	case rule.SlidingWindow:
		part /= int64(l.Segments)
		kind += 32 * int64(l.Overlap)
	case rule.DefaultAlgorithm:
		part /= int64(l.Segments)
		kind = none + 32*int64(l.Overlap) + 128*bit(startsInParts(l))
	default:
		kind += 32 * int64(rule.OverlapWhole)
	}
	kind += 8*bit(l.Anchor == rule.AnchorFirst) + 16*bit(l.CountRefused)
	t.numbers = append(t.numbers, kind, int64(l.Parts()), part, int64(l.Window), capacity, unit, int64(times), l.Quota)
}

// readAny derives the answers from the result of take_any or take_any_many.
func (t *roundTrip) readAny(batch []store.Request) error {
	return t.eachReply(batch, func(e entry, reply []int64) bool {
		if len(reply) < fastReplies {
			return false
		}
		l := batch[t.parts[e.from].request].Charges[0].Limit.Rule()
		if l.Algorithm == rule.SlidingLog || l.Algorithm == rule.DefaultAlgorithm && reply[1]&fastParts == 0 {
			t.readLogRun(batch, e, reply)
			return true
		}
		return t.readStateRun(batch, e, reply)
	})
}

// readStateRun decides a run by the state that a function saw, and reports whether the function decided the same.
func (t *roundTrip) readStateRun(batch []store.Request, e entry, reply []int64) (same bool) {
	charge := &batch[t.parts[e.from].request].Charges[0]
	l := charge.Limit.Rule()
	now, admitted, moved := rule.Micros(reply[0]), int(reply[1]>>fastAdmitted), reply[1]&fastMoved != 0
	clear(t.stateCounts[:])
	var rolled, ok bool
	if t.state, rolled, ok = stateBefore(l, charge.Cost, e.to-e.from, reply, t.stateCounts[:l.Parts()]); !ok {
		return false
	}
	for j := range e.to - e.from {
		a, _ := l.TakeOne(&t.state, now, charge.Cost)
		if a.Allowed != (j < admitted) || j == 0 && !rolled && (a.Flags&rule.ClockMoved != 0) != moved {
			return false
		}
		if rolled && j == 0 && moved {
			a.Flags |= rule.ClockMoved
		}
		batch[t.parts[e.from+j].request].Answers[0] = a
	}
	return true
}

// stateBefore returns the state that a run was decided by. For a window in several parts it may be an equivalent one
// that is already rolled to now: if all takes are admitted and units are left, only the usage and the newest count
// matter, because that count is the last to expire.
func stateBefore(l *rule.Limit, cost int64, times int, reply, counts []int64) (s rule.State, rolled, ok bool) {
	admitted, rolled := reply[1]>>fastAdmitted, reply[1]&fastRolled != 0
	if l.Algorithm == rule.TokenBucket {
		s.Start, s.Missing, s.Rest, s.Until = rule.Micros(reply[2]), reply[3], reply[4], rule.Micros(reply[5])
		return s, false, s.Missing >= 0 && s.Rest >= 0
	}
	s.Counts = counts
	switch used := reply[5]; {
	case reply[2] < 0:
		s.Start = rule.Absent
	case len(counts) <= 2:
		s.Start = rule.Micros(reply[2])
		copy(counts, reply[3:5])
	case admitted < int64(times) || cost == 0 || used+cost*admitted >= l.Quota:
		s.Start = rule.Micros(reply[2])
		return s, rolled, readCounts(l, s.Start, reply[fastReplies:], counts)
	default:
		s.Start, counts[0], counts[1] = rule.Micros(reply[3]), reply[4], used-reply[4]
		return s, true, counts[1] >= 0
	}
	return s, rolled, true
}

// readCounts reads the parts of a row, in which the current one begins at start: see rule.sql. They are padded with 0. It reports
// whether they are valid.
func readCounts(l *rule.Limit, start rule.Micros, parts, counts []int64) (ok bool) {
	number := int64(start / (l.Window / rule.Micros(l.Segments)))
	for _, part := range parts {
		if part == 0 {
			break
		}
		ago := (number - part) & 127
		if part < 0 || ago >= int64(len(counts)) || counts[ago] != 0 {
			return false
		}
		counts[ago] = part >> 7
	}
	return true
}

// readLogRun derives the answers of a run over a log, whose units stay in the database.
func (t *roundTrip) readLogRun(batch []store.Request, e entry, reply []int64) {
	charge := &batch[t.parts[e.from].request].Charges[0]
	l, cost := charge.Limit.Rule(), charge.Cost
	now, admitted, moved := rule.Micros(reply[0]), int(reply[1]>>fastAdmitted), reply[1]&fastMoved != 0
	live, newest, first, blocking := reply[2], rule.Micros(reply[3]), rule.Micros(reply[4]), rule.Micros(reply[5])
	at := max(now, newest)
	for j := range e.to - e.from {
		allowed, granted, wait := j < admitted, int64(0), blocking
		if allowed {
			granted, wait = cost, first
		}
		switch charged := cost > 0 && (allowed || l.CountRefused && cost <= l.Quota); {
		case charged && l.Algorithm == rule.SlidingLog:
			live, newest = min(live+cost, max(live, l.Quota)), at
		case charged:
			live, newest = live+cost, at
		}
		batch[t.parts[e.from+j].request].Answers[0] = port.AnswerLog(l, live, newest, wait, now, at, moved, cost, granted, allowed)
		if cost > 0 || !allowed {
			moved = false // the first one has moved the state
		}
	}
}
