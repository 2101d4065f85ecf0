package pgstore

import (
	"fmt"
	"slices"

	"github.com/slidegate/slidegate/internal/port"
	"github.com/slidegate/slidegate/rule"
	"github.com/slidegate/slidegate/store"
)

// read derives the answers from the result of decide.
func (t *roundTrip) read(batch []store.Request) error {
	if _, outside := t.outside(); outside {
		return errOutside
	}
	rest, ok := t.reply, true
	for i := range t.parts {
		a := &t.parts[i]
		r := &batch[a.request]
		if r.Answers[a.of], rest, ok = readDecided(r, a.of, rest); !ok {
			return fmt.Errorf("pgstore: %w", errReply)
		}
	}
	if len(rest) > 0 {
		return fmt.Errorf("pgstore: %w", errReply)
	}
	return nil
}

// replyHeader is how many numbers of a reply to a charge come before the state and what is held.
const replyHeader = 7

// readDecided reads the reply to a charge of a request, and returns the replies after it.
func readDecided(r *store.Request, of int, reply []int64) (answer rule.Answer, rest []int64, ok bool) {
	if len(reply) < replyHeader || min(reply[5], reply[6]) < 0 || max(reply[5], reply[6]) > int64(len(reply)) || reply[6]%holdNumbers != 0 {
		return answer, nil, false
	}
	state, end := replyHeader+int(reply[5]), replyHeader+int(reply[5]+reply[6])
	if end > len(reply) {
		return answer, nil, false
	}
	answer, ok = derive(r, of, reply[:replyHeader], reply[replyHeader:state], reply[state:end])
	return answer, reply[end:], ok
}

// Flags of the reply to a charge.
const (
	flagAllowed = 1 << iota
	flagMoved
	flagRepeated
	flagUnsettled
	flagParts // no algorithm named: the state is in parts
	flagNotOnce
	flagForGood // refused for good
)

// derive derives an answer from the decision, the state after it, and what is held then.
func derive(r *store.Request, of int, decided, state, holds []int64) (answer rule.Answer, ok bool) {
	l := r.Charges[of].Limit.Rule()
	now, flags, granted, cost, at := rule.Micros(decided[0]), decided[1], decided[2], decided[3], rule.Micros(decided[4])
	allowed, moved := flags&flagAllowed != 0, flags&flagMoved != 0
	isLog := l.Algorithm == rule.SlidingLog || l.Algorithm == rule.DefaultAlgorithm && flags&flagParts == 0
	if len(holds) == 0 && (isLog || l.Algorithm == rule.InFlight) {
		if len(state) != 3 {
			return answer, false
		}
		answer = port.AnswerLog(l, state[0], rule.Micros(state[1]), rule.Micros(state[2]), now, at, moved, cost, granted, allowed)
	} else {
		var counts [rule.MaxSegments + 1]int64
		s, ok := stateOf(l, isLog, state, counts[:l.Parts()])
		if !ok || !readHolds(&s, holds) {
			return answer, false
		}
		if len(state)+len(holds) == 0 && !allowed && cost <= l.Capacity() { // a limit that was never charged refuses nothing
			return answer, false
		}
		answer = port.Answer(l, &s, now, cost, granted, allowed, moved, r.Hold)
	}
	readFlags(&answer, flags, at, len(holds) > 0)
	return answer, true
}

// readFlags adds to an answer what else the flags say. Held is whether something is held.
func readFlags(a *rule.Answer, flags int64, at rule.Micros, held bool) {
	if flags&flagForGood != 0 {
		if a.Allowed, a.NextAfter, a.RetryAfter = false, 0, rule.Never; held {
			a.Flags |= rule.Held
		}
	}
	if flags&flagRepeated != 0 {
		a.Flags |= rule.Repeated
		a.At = at // of a call, when it was made
	}
	if flags&flagUnsettled != 0 {
		a.Flags |= rule.Unsettled
	}
	if flags&flagNotOnce != 0 {
		a.Flags |= rule.NotOnce
	}
}

// stateOf returns the state in a function's reply.
func stateOf(l *rule.Limit, isLog bool, reply, counts []int64) (s rule.State, ok bool) {
	if isLog {
		return s, readLog(l, &s.Log, reply)
	}
	bucket := l.Algorithm == rule.TokenBucket
	if bucket && len(reply) > 1 && slices.Min(reply[1:]) < 0 {
		return s, false
	}
	switch {
	case len(reply) == 0 && bucket:
	case len(reply) == 0:
		s.Start = rule.Absent
	case bucket && len(reply) == 4:
		s.Start, s.Missing, s.Rest, s.Until = rule.Micros(reply[0]), reply[1], reply[2], rule.Micros(reply[3])
	case !bucket && len(reply) == 1+len(counts):
		copy(counts, reply[1:])
		s.Start, s.Counts = rule.Micros(reply[0]), counts
	default:
		return s, false
	}
	return s, true
}

// readLog reads the times of a log.
func readLog(l *rule.Limit, log *rule.Log, times []int64) (ok bool) {
	if len(times) == 0 {
		return true
	}
	if first, last := times[0], times[len(times)-1]; len(times) > rule.MaxLogQuota || !slices.IsSorted(times) ||
		first <= -int64(l.Window) || last > int64(rule.MaxNow) || last-first >= int64(l.Window) {
		return false
	}
	log.Restart(len(times), l.Window)
	for _, at := range times {
		log.Append(rule.Micros(at))
	}
	return true
}

// readSlots reads the slots of an in-flight limit, of which the numbers are the id and when it was renewed.
func readSlots(numbers []int64) (slots []rule.Slot, ok bool) {
	for ; len(numbers) > 1; numbers = numbers[2:] {
		slots = append(slots, rule.Slot{ID: rule.ID(numbers[0]), Renewed: rule.Micros(numbers[1])})
	}
	return slots, len(numbers) == 0
}

// holdNumbers is how many numbers a hold has.
const holdNumbers = 4

// readHolds adds what is held to a state. Of each hold the numbers are the id, the units, when it ends, and how long after it was renewed
// that is.
func readHolds(s *rule.State, holds []int64) (ok bool) {
	for ; len(holds) > 0; holds = holds[holdNumbers:] {
		h := rule.Hold{ID: rule.ID(holds[0]), Units: holds[1], Ends: rule.Micros(holds[2]), Length: rule.Micros(holds[3])}
		if h.Units < 0 || h.Units > rule.MaxQuota || h.Length <= 0 || h.Length > rule.MaxWindow || h.Ends < 0 || h.Ends-h.Length > rule.MaxNow {
			return false
		}
		s.Holds = append(s.Holds, h)
	}
	return true
}
