package history

import (
	"fmt"

	"github.com/anishathalye/porcupine"
	"github.com/slidegate/slidegate/rule"
)

// The model of in-flight limits. An unanswered request may have been carried out at any time from when it was made to
// the end, so a slot has the earliest and the latest time at which it was renewed. As long as these differ, only the decision and the
// number of remaining slots of an answer are checked; otherwise it must match to the microsecond.

// maxSlots is the maximum number of slots in a state: those of all the IDs that are drawn.
const maxSlots = 6

// heldSlot is a slot that may be held. The zero value means that it is not.
type heldSlot struct {
	id       rule.ID
	from, to rule.Micros // the earliest and the latest time at which it was renewed
}

// slots is the state of one key, and when it was last seen. The index of a slot follows from its ID.
type slots struct {
	last rule.Micros
	all  [maxSlots + 1]heldSlot
}

func slotsModel(l *rule.Limit) porcupine.Model {
	m := porcupine.NondeterministicModel{
		Init: func() []any { return []any{slots{}} },
		Step: func(before, request, result any) []any {
			in, answer := request.(input), result.(output).answer
			switch s := before.(slots); {
			case in.forget:
				return []any{slots{}}
			case answer == nil:
				return s.unanswered(l, &in)
			case answer.At < s.last:
				return nil
			default:
				return s.answered(l, &in, answer)
			}
		},
		Equal: func(a, b any) bool { return a == b },
		DescribeOperation: func(request, result any) string {
			return fmt.Sprintf("%+v -> %+v", request, result.(output).answer)
		},
	}
	return m.ToModel()
}

// answered returns the possible states after an answer: one for each set of slots that may have expired and that explains the answer.
// A request that changes nothing leaves no trace, not even its time: a store may answer it concurrently with others.
func (s slots) answered(l *rule.Limit, in *input, answer *rule.Answer) (next []any) {
	read := false
	for _, now := range s.at(answer.At, l.Window) {
		if !now.explains(l, in, answer) {
			continue
		}
		if changed := now.after(l, in, answer.At); changed != now {
			next = append(next, changed)
		} else if !read {
			read = true
			next = append(next, s)
		}
	}
	return next
}

// at returns the states that s may be in at a time: each slot that may have expired is gone in some and held in others.
func (s slots) at(now, ttl rule.Micros) []slots {
	all := []slots{s}
	for i := range s.all {
		h := s.all[i]
		if h.id == 0 {
			continue
		}
		var split []slots
		for _, one := range all {
			h.to = min(h.to, now) // a request that was carried out before now renewed the slot before now
			gone, kept := one, one
			gone.all[i] = heldSlot{}
			kept.all[i] = heldSlot{h.id, max(h.from, now-ttl+1), h.to}
			if h.from <= now-ttl {
				split = append(split, gone)
			}
			if h.to > now-ttl {
				split = append(split, kept)
			}
		}
		all = split
	}
	for i := range all {
		all[i].last = now
	}
	return all
}

// explains reports whether the rule gives this answer for s if all its slots are live.
func (s slots) explains(l *rule.Limit, in *input, answer *rule.Answer) bool {
	var state rule.State
	exact := true
	for _, h := range s.all {
		if h.id == 0 {
			continue
		}
		exact = exact && h.from == h.to
		i := len(state.Slots)
		for i > 0 && state.Slots[i-1].Renewed > h.from {
			i--
		}
		state.Slots = append(state.Slots[:i], append([]rule.Slot{{ID: h.id, Renewed: h.from}}, state.Slots[i:]...)...)
	}
	answers := make([]rule.Answer, 1)
	rule.Decide(in.op, []rule.Item{{Limit: l, State: &state, Cost: in.cost, At: 1, ID: in.id}}, answer.At, answers)
	want := answers[0]
	if !exact {
		want.RetryAfter, want.ResetAfter, want.NextAfter = answer.RetryAfter, answer.ResetAfter, answer.NextAfter
	}
	return want == *answer
}

// after returns s after a request that was carried out at a time. Whether it was refused follows from s.
func (s slots) after(l *rule.Limit, in *input, now rule.Micros) slots {
	h := &s.all[in.id]
	live := int64(0)
	for _, other := range s.all {
		if other.id != 0 {
			live++
		}
	}
	switch {
	case in.op == rule.GiveBack:
		*h = heldSlot{}
	case h.id != 0 && in.op != rule.Peek, in.op == rule.Take && live < l.Quota:
		*h = heldSlot{in.id, now, now}
	}
	return s
}

// unanswered returns the states that an unanswered request can have led to. It may also have been refused, or never
// carried out.
func (s slots) unanswered(l *rule.Limit, in *input) []any {
	next := []any{s}
	from := max(s.last, in.called)
	if from > in.end {
		return next
	}
	var sure int64 // slots that are certainly held until the end
	for _, h := range s.all {
		if h.id != 0 && h.from > in.end-l.Window {
			sure++
		}
	}
	h := s.all[in.id]
	changed := s
	switch {
	case in.op == rule.GiveBack && h.id != 0:
		changed.all[in.id] = heldSlot{}
	case in.op == rule.Renew && h.id != 0, in.op == rule.Take && (h.id != 0 || sure < l.Quota):
		changed.all[in.id] = heldSlot{in.id, from, in.end}
	}
	if changed != s {
		changed.last = from
		next = append(next, changed)
	}
	return next
}
