package history

import (
	"fmt"

	"github.com/anishathalye/porcupine"
	"github.com/slidegate/slidegate/rule"
)

// The model that histories are checked against: the rule, by the server's time, which every answer carries.

// state is the state of one key as the model has it, and when it was last changed. The server's clock is taken not to be
// set back while a history is made, so nothing that sees a change was decided before it, or only by as much as clocks are apart.
type state struct {
	last   rule.Micros
	start  rule.Micros
	counts [5]int64 // Segments+1 of a limit, at most
}

// input is a request, and the end of the history: what was not answered may have been carried out until then.
type input struct {
	op          rule.Op
	cost        int64
	id          rule.ID // in-flight limits only
	called, end rule.Micros
	forget      bool
}

// output is nil for a request that was not answered.
type output struct{ answer *rule.Answer }

// model is the rule for one limit in the words of the checker. Clocks may be apart by so much.
func model(l *rule.Limit, apart rule.Micros) porcupine.Model {
	if l.Algorithm == rule.InFlight {
		return slotsModel(l, apart)
	}
	m := porcupine.NondeterministicModel{
		Init: func() []any { return []any{state{start: rule.Absent}} },
		Step: func(before, request, result any) []any {
			return before.(state).step(l, apart, request.(input), result.(output).answer)
		},
		Equal: func(a, b any) bool { return a == b },
		DescribeOperation: func(request, result any) string {
			return fmt.Sprintf("%+v -> %+v", request, result.(output).answer)
		},
	}
	return m.ToModel()
}

// step returns the states that a request can have led to; none if it cannot have been answered so.
func (s state) step(l *rule.Limit, apart rule.Micros, in input, answer *rule.Answer) []any {
	switch {
	case in.forget:
		return []any{state{start: rule.Absent}}
	case answer == nil:
		return s.unanswered(l, apart, &in)
	case answer.At < s.last-apart:
		return nil
	}
	next, a := s.decide(l, &in, answer.At)
	if a != *answer && (answer.At != s.start || !shifted(a, *answer, apart)) {
		return nil
	}
	return []any{next}
}

// shifted reports whether an answer is the wanted one but for the clock that its times count from. The rule takes a moment before the
// state's own for that, and the answer carries it; but how long to wait counts from the earlier moment.
func shifted(want, answer rule.Answer, apart rule.Micros) bool {
	earlier := answer.ResetAfter - want.ResetAfter
	if earlier < 0 || earlier > apart {
		return false
	}
	for _, after := range []*rule.Micros{&want.RetryAfter, &want.ResetAfter, &want.NextAfter} {
		if *after > 0 {
			*after += earlier
		}
	}
	return want == answer
}

// decide is what the rule says. The state keeps its time if nothing changes.
func (s state) decide(l *rule.Limit, in *input, now rule.Micros) (state, rule.Answer) {
	inside := rule.State{Start: s.start, Counts: s.counts[:l.Parts()]}
	answers := make([]rule.Answer, 1)
	rule.Decide(in.op, []rule.Item{{Limit: l, State: &inside, Cost: in.cost, At: rule.Oldest}}, now, answers)
	next := state{last: max(s.last, now), start: inside.Start}
	copy(next.counts[:], inside.Counts)
	if next.start == s.start && next.counts == s.counts {
		next.last = s.last
	}
	return next, answers[0]
}

// unanswered returns the states that a request can have led to which was not answered, if it was carried out after what
// made s. (That it never was, or was refused, is the same as its being carried out when everything else is over.) Within a
// part of the window it makes no difference when it was carried out, except that it is most likely to be admitted at the
// end: so there is one state for each part.
func (s state) unanswered(l *rule.Limit, apart rule.Micros, in *input) (next []any) {
	part := l.Window / rule.Micros(l.Segments)
	for from := max(s.last, in.called) - apart; from <= in.end+apart; from = from - from%part + part {
		changed, _ := s.decide(l, in, from-from%part+part-1)
		if changed.last != s.last {
			changed.last = max(s.last, from)
		}
		next = append(next, changed)
	}
	if len(next) == 0 {
		next = append(next, s)
	}
	return next
}
