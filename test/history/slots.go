package history

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/anishathalye/porcupine"
	"github.com/slidegate/slidegate/rule"
)

// The model of slots, written without the rule: who holds one, and since when at the earliest and at the latest. An exact
// time is not known of what was not answered. It is narrowed down by every answer that it has to agree with.

// mostHeld is how many slots a state has room for: a quota, and what may have been carried out of what was not answered.
const mostHeld = 12

// holder is a slot that is held, since it was last renewed between the two moments.
type holder struct {
	id               rule.ID
	earliest, latest rule.Micros
}

// holders are the slots of one key, and when they were last changed. They are in the order of their ids.
type holders struct {
	last  rule.Micros
	count int
	slots [mostHeld]holder
}

func slotsModel(l *rule.Limit) porcupine.Model {
	m := porcupine.NondeterministicModel{
		Init: func() []any { return []any{holders{}} },
		Step: func(before, request, result any) (next []any) {
			for _, after := range before.(holders).step(l, request.(input), result.(output).answer) {
				next = append(next, after)
			}
			return next
		},
		Equal: func(a, b any) bool { return a == b },
		DescribeOperation: func(request, result any) string {
			return fmt.Sprintf("%+v -> %+v", request, result.(output).answer)
		},
	}
	return m.ToModel()
}

// step returns what a request can have led to; nothing if it cannot have been answered so.
func (h holders) step(l *rule.Limit, in input, answer *rule.Answer) (next []holders) {
	switch {
	case in.forget:
		return []holders{{}}
	case answer == nil:
		return h.unanswered(in)
	case answer.At < h.last:
		return nil
	}
	for _, now := range h.at(answer.At, l.Window) {
		if after, agrees := now.answered(l, in, answer); agrees {
			next = append(next, after)
		}
	}
	return next
}

// at returns what h can be at a moment, when each slot either is held or has run out.
func (h holders) at(now, ttl rule.Micros) []holders {
	all := []holders{{last: h.last}}
	for _, slot := range h.slots[:h.count] {
		if slot.latest = min(slot.latest, now); slot.earliest > slot.latest {
			return nil // it was changed later than this
		}
		gone := now - ttl // what was renewed then or before has run out
		with := slices.Clone(all)
		for i := range with {
			with[i] = with[i].hold(holder{slot.id, max(slot.earliest, gone+1), slot.latest})
		}
		switch {
		case slot.earliest > gone:
			all = with
		case slot.latest > gone:
			all = append(all, with...)
		}
	}
	return all
}

// answered returns what a request leads to at the moment of its answer, and whether that is how it was answered.
func (h holders) answered(l *rule.Limit, in input, answer *rule.Answer) (after holders, agrees bool) {
	held := h.find(in.id) >= 0
	after = h
	switch in.op {
	case rule.Take:
		agrees = answer.Allowed == (held || int64(h.count) < l.Quota)
		if answer.Allowed {
			after = h.hold(holder{in.id, answer.At, answer.At})
		}
	case rule.Renew:
		agrees = answer.Allowed == held
		if held {
			after = h.hold(holder{in.id, answer.At, answer.At})
		}
	default:
		agrees = answer.Granted == 1 == held
		if held {
			after = h.drop(in.id)
		}
	}
	if after != h {
		after.last = answer.At
	}
	return after, agrees && answer.Remaining == max(0, l.Quota-int64(after.count))
}

// unanswered returns what a request can have led to that was not answered: nothing, or that it was carried out.
func (h holders) unanswered(in input) []holders {
	since := max(h.last, in.called)
	done := h
	switch held := h.find(in.id) >= 0; {
	case in.op == rule.Take || in.op == rule.Renew && held:
		done = h.hold(holder{in.id, since, in.end})
	case in.op != rule.Renew && held:
		done = h.drop(in.id)
	}
	if done == h || since > in.end {
		return []holders{h}
	}
	done.last = since
	return []holders{h, done}
}

func (h *holders) find(id rule.ID) int {
	return slices.IndexFunc(h.slots[:h.count], func(slot holder) bool { return slot.id == id })
}

// hold returns h with a slot, in place of the one with its id.
func (h holders) hold(slot holder) holders {
	h = h.drop(slot.id)
	h.slots[h.count] = slot
	h.count++
	slices.SortFunc(h.slots[:h.count], func(a, b holder) int { return cmp.Compare(a.id, b.id) })
	return h
}

func (h holders) drop(id rule.ID) holders {
	if i := h.find(id); i >= 0 {
		copy(h.slots[i:], h.slots[i+1:h.count])
		h.count--
		h.slots[h.count] = holder{}
	}
	return h
}
