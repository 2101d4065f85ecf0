package history

import (
	"fmt"

	"github.com/anishathalye/porcupine"
	"github.com/slidegate/slidegate/rule"
)

// The model that histories are checked against: the rule, by the server's time, which every answer carries.

// state is the state of one key in the model, and when it was last changed. The server's clock is assumed not to be set
// back during a history, so a request that sees a change was not decided before it.
type state struct {
	last   rule.Micros
	start  rule.Micros
	counts [5]int64 // Segments+1 of a limit, at most
}

// input is a request, and the end of the history: an unanswered request may have been carried out until then.
type input struct {
	op          rule.Op
	cost        int64
	id          rule.ID // in-flight limits only
	called, end rule.Micros
	forget      bool
}

// output is nil for a request that was not answered.
type output struct{ answer *rule.Answer }

// model is the rule for one limit as a model of the checker.
func model(l *rule.Limit) porcupine.Model {
	if l.Algorithm == rule.InFlight {
		return slotsModel(l)
	}
	m := porcupine.NondeterministicModel{
		Init: func() []any { return []any{state{start: rule.Absent}} },
		Step: func(before, request, result any) []any {
			return before.(state).step(l, request.(input), result.(output).answer)
		},
		Equal: func(a, b any) bool { return a == b },
		DescribeOperation: func(request, result any) string {
			return fmt.Sprintf("%+v -> %+v", request, result.(output).answer)
		},
	}
	return m.ToModel()
}

// step returns the states that a request can have led to; none if its answer is impossible.
func (s state) step(l *rule.Limit, in input, answer *rule.Answer) []any {
	switch {
	case in.forget:
		return []any{state{start: rule.Absent}}
	case answer == nil:
		return s.unanswered(l, &in)
	case answer.At < s.last:
		return nil
	}
	next, a := s.decide(l, &in, answer.At)
	if a != *answer {
		return nil
	}
	return []any{next}
}

// decide returns the rule's decision. The state keeps its time if nothing changes.
func (s state) decide(l *rule.Limit, in *input, now rule.Micros) (state, rule.Answer) {
	inside := rule.State{Start: s.start, Counts: s.counts[:l.Parts()]}
	answers := make([]rule.Answer, 1)
	rule.Decide(in.op, []rule.Item{{Limit: l, State: &inside, Cost: in.cost, At: rule.Oldest}}, now, answers)
	next := state{last: now, start: inside.Start}
	copy(next.counts[:], inside.Counts)
	if next.start == s.start && next.counts == s.counts {
		next.last = s.last
	}
	return next, answers[0]
}

// unanswered returns the states that an unanswered request can have led to, if it was carried out after s was reached.
// (If it never was, or was refused, that is the same as being carried out after everything else.) Within a part of the
// window it makes no difference when it was carried out, except that it is most likely to be admitted at the end, so
// there is one state for each part.
func (s state) unanswered(l *rule.Limit, in *input) (next []any) {
	part := l.Window / rule.Micros(l.Segments)
	for from := max(s.last, in.called); from <= in.end; from = from - from%part + part {
		changed, _ := s.decide(l, in, from-from%part+part-1)
		if changed.last != s.last {
			changed.last = from
		}
		next = append(next, changed)
	}
	if len(next) == 0 {
		next = append(next, s)
	}
	return next
}
