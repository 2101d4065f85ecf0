package history

import (
	"fmt"

	"github.com/anishathalye/porcupine"
	"github.com/slidegate/slidegate/rule"
)

// The model of in-flight limits. What was not answered may have been carried out at any moment from when it was asked to the end, so
// a slot is known by when it was renewed at the earliest and at the latest. As long as that is not the same, answers are
// held to their verdict and to how many slots remain, and else to the last microsecond.

// mostSlots is how many slots a state has room for: those of all the IDs that are drawn.
const mostSlots = 6

// held is a slot that somebody may hold. The zero value is none.
type held struct {
	id       rule.ID
	from, to rule.Micros // when it was renewed: not before, and not after
}

// slots is the state of one key, and when it was last seen. The place of a slot follows from its ID.
type slots struct {
	last rule.Micros
	all  [mostSlots + 1]held
}

func slotsModel(l *rule.Limit, apart rule.Micros) porcupine.Model {
	m := porcupine.NondeterministicModel{
		Init: func() []any { return []any{slots{}} },
		Step: func(before, request, result any) []any {
			in, answer := request.(input), result.(output).answer
			switch s := before.(slots); {
			case in.forget:
				return []any{slots{}}
			case answer == nil:
				return s.unanswered(l, apart, &in)
			case answer.At < s.last-apart:
				return nil
			default:
				return s.answered(l, apart, &in, answer)
			}
		},
		Equal: func(a, b any) bool { return a == b },
		DescribeOperation: func(request, result any) string {
			return fmt.Sprintf("%+v -> %+v", request, result.(output).answer)
		},
	}
	return m.ToModel()
}

// answered returns the states after an answer: one for each way in which slots may have run out, if the answer fits it. A
// request that changes nothing leaves no trace, not even its time: a store may answer it beside others.
func (s slots) answered(l *rule.Limit, apart rule.Micros, in *input, answer *rule.Answer) (next []any) {
	read := false
	decided := s.decidedAt(answer.At)
	for _, now := range s.at(decided, l.Window) {
		if !now.explains(l, apart, in, answer) {
			continue
		}
		if changed := now.after(l, in, decided); changed != now {
			next = append(next, changed)
		} else if !read {
			read = true
			next = append(next, s)
		}
	}
	return next
}

// decidedAt returns the moment that the rule decides at, if the clock shows now: that of the newest slot if now is older.
func (s slots) decidedAt(now rule.Micros) rule.Micros {
	for _, h := range s.all {
		if h.id != 0 {
			now = max(now, h.from)
		}
	}
	return now
}

// at returns what s can be at a moment: a slot that may have run out has, or has not.
func (s slots) at(now, ttl rule.Micros) []slots {
	all := []slots{s}
	for i := range s.all {
		h := s.all[i]
		if h.id == 0 {
			continue
		}
		var split []slots
		for _, one := range all {
			h.to = min(h.to, now) // what was carried out before now was renewed before now
			gone, kept := one, one
			gone.all[i] = held{}
			kept.all[i] = held{h.id, max(h.from, now-ttl+1), h.to}
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
		all[i].last = max(s.last, now)
	}
	return all
}

// explains reports whether the rule gives that answer to a state of which all slots are live.
func (s slots) explains(l *rule.Limit, apart rule.Micros, in *input, answer *rule.Answer) bool {
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
	newest := rule.Micros(-1) // which the rule decides at if the clock shows an earlier moment
	if n := len(state.Slots); n > 0 {
		newest = state.Slots[n-1].Renewed
	}
	answers := make([]rule.Answer, 1)
	rule.Decide(in.op, []rule.Item{{Limit: l, State: &state, Cost: in.cost, At: 1, ID: in.id}}, answer.At, answers)
	want := answers[0]
	if !exact {
		want.RetryAfter, want.ResetAfter, want.NextAfter = answer.RetryAfter, answer.ResetAfter, answer.NextAfter
	}
	return want == *answer || newest == answer.At && shifted(want, *answer, apart)
}

// after returns s after a request that was carried out at a moment. Whether it was refused follows from s.
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
		*h = held{}
	case h.id != 0 && in.op != rule.Peek, in.op == rule.Take && live < l.Quota:
		*h = held{in.id, now, now}
	}
	return s
}

// unanswered returns the states that a request can have led to which was not answered. It may also have been refused, or never
// carried out.
func (s slots) unanswered(l *rule.Limit, apart rule.Micros, in *input) []any {
	next := []any{s}
	from, end := max(s.last, in.called)-apart, in.end+apart
	if from > end {
		return next
	}
	var sure int64 // slots that are held until the end for certain
	for _, h := range s.all {
		if h.id != 0 && h.from > end-l.Window {
			sure++
		}
	}
	h := s.all[in.id]
	changed := s
	switch {
	case in.op == rule.GiveBack && h.id != 0:
		changed.all[in.id] = held{}
	case in.op == rule.Renew && h.id != 0, in.op == rule.Take && (h.id != 0 || sure < l.Quota):
		changed.all[in.id] = held{in.id, from, end}
	}
	if changed != s {
		changed.last = max(s.last, from)
		next = append(next, changed)
	}
	return next
}
