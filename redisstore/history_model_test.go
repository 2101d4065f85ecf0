package redisstore

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"
	"github.com/slidegate/slidegate"
	"github.com/slidegate/slidegate/rule"
)

// The model that histories are checked against: the rule, by the server's time, which every answer carries.

// modelState is the state of one key as the model has it, and the latest time that is known to have come when it was made.
// The server's clock is taken not to be set back while a history is made.
type modelState struct {
	last   rule.Micros
	start  rule.Micros
	counts [5]int64 // Segments+1 of historyWindow
}

// modelInput is a request, and the end of the history: what was not answered may have been carried out until then.
type modelInput struct {
	op          slidegate.Op
	cost        int64
	called, end rule.Micros
}

// modelOutput is nil for a request that was not answered.
type modelOutput struct{ answer *slidegate.Answer }

func historyModel(l *rule.Limit) porcupine.Model {
	model := porcupine.NondeterministicModel{
		Init: func() []any { return []any{modelState{start: rule.Absent}} },
		Step: func(state, input, output any) []any {
			s, in, out := state.(modelState), input.(modelInput), output.(modelOutput)
			if out.answer == nil {
				return s.unanswered(l, &in)
			}
			if out.answer.At < s.last {
				return nil
			}
			next, a := s.decide(l, &in, out.answer.At)
			if a != *out.answer {
				return nil
			}
			return []any{next}
		},
		Equal: func(a, b any) bool { return a == b },
		DescribeOperation: func(input, output any) string {
			return fmt.Sprintf("%+v -> %+v", input, output.(modelOutput).answer)
		},
	}
	return model.ToModel()
}

func (s modelState) decide(l *rule.Limit, in *modelInput, now rule.Micros) (modelState, slidegate.Answer) {
	state := rule.State{Start: s.start, Counts: s.counts[:]}
	answers := make([]slidegate.Answer, 1)
	rule.Decide(in.op, []rule.Item{{Limit: l, State: &state, Cost: in.cost, At: rule.Oldest}}, now, answers)
	next := modelState{last: now, start: state.Start}
	copy(next.counts[:], state.Counts)
	return next, answers[0]
}

// unanswered returns the states that a request can have led to which was not answered, if it was carried out after what
// made s. (That it never was, or was refused, is the same as its being carried out when everything else is over.) Within a
// part of the window it makes no difference when it was carried out, except that it is most likely to be admitted at the
// end: so there is one state for each part.
func (s modelState) unanswered(l *rule.Limit, in *modelInput) (next []any) {
	part := l.Window / int64(l.Segments)
	from := max(s.last, in.called)
	for ; from <= in.end; from = from - from%part + part {
		changed, _ := s.decide(l, in, from-from%part+part-1)
		if changed.start == s.start && changed.counts == s.counts {
			changed = s // refused, or nothing to give back
		} else {
			changed.last = from
		}
		next = append(next, changed)
	}
	if len(next) == 0 {
		next = append(next, s)
	}
	return next
}

// operations turns events into what the checker takes, one history for each key of the window.
func operations(events []event) map[int][]porcupine.Operation {
	var end int64
	for i := range events {
		end = max(end, events[i].Return)
	}
	histories := map[int][]porcupine.Operation{}
	for i := range events {
		e := &events[i]
		if e.Log {
			continue
		}
		op := porcupine.Operation{
			ClientId: e.Client, Call: e.Call, Return: e.Return,
			Input: modelInput{e.Op, e.Cost, e.Call / 1_000, end / 1_000}, Output: modelOutput{},
		}
		if e.Known {
			op.Output = modelOutput{&e.Answer}
		} else {
			op.Return = end + int64(time.Hour)
		}
		histories[e.Key] = append(histories[e.Key], op)
	}
	return histories
}

// checkHistory tells what is wrong with a history.
func checkHistory(t testing.TB, events []event) error {
	t.Helper()
	model := historyModel(bind(t, "history", historyWindow).Rule())
	for key, history := range operations(events) {
		if result := porcupine.CheckOperationsTimeout(model, history, time.Minute); result != porcupine.Ok {
			return fmt.Errorf("the %d requests for key %d are in no order that the rule explains: %s", len(history), key, result)
		}
	}
	return checkLogs(events)
}

// checkLogs: in no window were more units of a sliding log admitted, for certain, than the quota.
func checkLogs(events []event) error {
	times := map[int][]rule.Micros{}
	for _, e := range events {
		if e.Log && e.Known {
			for range e.Answer.Granted {
				times[e.Key] = append(times[e.Key], e.Answer.At)
			}
		}
	}
	quota := int(historyLog.Quota)
	for key, at := range times {
		slices.Sort(at)
		for i := quota; i < len(at); i++ {
			if length := at[i] - at[i-quota]; length < historyLog.Window.Microseconds() {
				return fmt.Errorf("key %d: %d units were admitted within %dus, of a quota of %d", key, quota+1, length, quota)
			}
		}
	}
	return nil
}
