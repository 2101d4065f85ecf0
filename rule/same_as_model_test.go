package rule

import (
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// The implementation decides as the model does: for any limit and any script, in every field.

func TestSameAsModel(t *testing.T) {
	decisions := 0
	defer func() { t.Logf("%d decisions", decisions) }()
	property(t, 2_000, func(t *rapid.T) {
		l := drawLimit(t)
		m, s, memory := newModel(&l), State{}, newMemory()
		now, last := drawOrigin(t, &l), Answer{}
		for range rapid.IntRange(1, 40).Draw(t, "steps") {
			if rapid.IntRange(0, 19).Draw(t, "change") == 0 {
				l = drawChange(t, l)
			}
			st := drawStep(t, &l, &s, now, &last)
			full := memory.look(t, &st)
			before := s.Clone()
			a, changed, cost := decideStep(t, &l, &s, st)
			items := []modelItem{{limit: &l, model: m, cost: st.cost, used: st.used, moment: st.back, id: st.id, hold: st.hold}}
			want := decideModels(st.op, items, st.at, memory.of(st.id), full, st.once)[0]
			want.RetryAfter, want.ResetAfter, want.NextAfter = a.RetryAfter, a.ResetAfter, a.NextAfter
			memory.check(t, &st)
			decisions++
			if a != want || cost != items[0].cost {
				t.Fatalf("%+v\nstep: %+v\nstate: %+v\nmodel: %+v\nanswer:%+v\nwant:  %+v", l, st, before, m, a, want)
			}
			if !st.refusedForGood(&a) {
				items[0].checkModelTimes(t, &a)
			}
			if !changed && !sameState(&before, &s) {
				t.Fatalf("%+v\nstep: %+v\nreported as unchanged: %+v to %+v", l, st, before, s)
			}
			checkAnswer(t, &l, &a)
			checkState(t, &l, &s)
			m, now, last = items[0].model, st.at, a
		}
	})
}

// memory is what a store remembers of settlements, for the rule and for the model.
type memory struct {
	memos  map[ID]*Memo
	models map[ID]*remembered
}

func newMemory() *memory { return &memory{map[ID]*Memo{}, map[ID]*remembered{}} }

func (m *memory) of(id ID) *remembered {
	if m.models[id] == nil {
		m.models[id] = new(remembered)
	}
	return m.models[id]
}

// look sets what is remembered of a Settle or a call. Sometimes there is no space to remember a new one.
func (m *memory) look(t *rapid.T, st *step) (full bool) {
	if st.op != Settle && !st.once {
		return false
	}
	st.memo = &Memo{}
	if known := m.memos[st.id]; known != nil {
		st.memo = &Memo{Known: true, Record: slices.Clone(known.Record)}
	}
	settled := m.of(st.id).settled
	st.memo.Full = !settled && (st.op == Settle || st.memo.kind() < 0) && rapid.IntRange(0, 9).Draw(t, "full") == 0
	return st.memo.Full
}

// check compares what is to be remembered, and stores it.
func (m *memory) check(t *rapid.T, st *step) {
	if st.memo == nil {
		return
	}
	if got, want := recordOf(st.memo), *m.of(st.id); got.settled != want.settled || got.cancelled != want.cancelled ||
		got.settled && !slices.Equal(got.back, want.back) || !got.settled && !slices.Equal(got.took, want.took) {
		t.Fatalf("step: %+v\nto be remembered: %+v, want %+v", *st, *st.memo, want)
	}
	if st.memo.Changed {
		m.memos[st.id] = &Memo{Record: slices.Clone(st.memo.Record)}
	}
}

// recordOf reads what a memo says.
func recordOf(m *Memo) (r remembered) {
	if !m.Known && !m.Changed {
		return remembered{}
	}
	numbers := m.Record[1:]
	switch m.Record[0] {
	case wasCalled:
		for ; len(numbers) > 0; numbers = numbers[2:] {
			r.took = append(r.took, modelTook{Micros(numbers[0]), max(numbers[1], -numbers[1]), numbers[1] < 0})
		}
	case wasSettled, wasCancelled:
		r.settled, r.cancelled, r.back = true, m.Record[0] == wasCancelled, numbers
	}
	return r
}

// drawChange returns another limit of the same shape.
func drawChange(t *rapid.T, l Limit) Limit {
	if l.Algorithm == SlidingWindow {
		l.Overlap = Overlap(rapid.IntRange(0, 2).Draw(t, "overlap"))
	}
	l = drawHold(t, l)
	if rapid.Bool().Draw(t, "beside") {
		l.Quota = clamp(l.Quota+rapid.Int64Range(-1, 1).Draw(t, "quota"), 1, MaxQuota)
		if n, err := l.Normalize(); err == nil {
			return n
		}
	}
	return drawQuota(t, l)
}

// One request over several limits decides like the same request over as many models.
func TestSeveralSameAsModels(t *testing.T) {
	decisions := 0
	defer func() { t.Logf("%d decisions", decisions) }()
	property(t, 700, func(t *rapid.T) {
		n := rapid.IntRange(1, 4).Draw(t, "limits")
		limits, states, models := make([]Limit, n), make([]State, n), make([]modelItem, n)
		for i := range limits {
			limits[i] = drawLimit(t)
			models[i] = modelItem{limit: &limits[i], model: newModel(&limits[i])}
		}
		now, answers, memory := drawOrigin(t, &limits[0]), make([]Answer, n), newMemory()
		for range rapid.IntRange(1, 20).Draw(t, "steps") {
			lead := rapid.IntRange(0, n-1).Draw(t, "lead") // the limit that the times and costs of this step are drawn for
			st := drawStep(t, &limits[lead], &states[lead], now, &answers[lead])
			st.id = ID(rapid.IntRange(1, 12).Draw(t, "id"))
			full := memory.look(t, &st)
			items := make([]Item, n)
			for i := range items {
				cost := st.cost
				if limits[i].Algorithm == InFlight {
					cost = min(1, cost)
				} else if rapid.IntRange(0, 3).Draw(t, "own cost") == 0 {
					cost = drawCost(t, &limits[i], limits[i].viewAt(&states[i], st.at).Room)
				}
				items[i] = Item{Limit: &limits[i], State: &states[i], Cost: cost, Used: st.used, At: st.back, ID: st.id, Hold: st.hold}
				models[i].cost, models[i].used, models[i].moment, models[i].id, models[i].hold = cost, st.used, st.back, st.id, st.hold
			}
			if st.memo != nil {
				DecideOnce(st.op, st.once, items, st.memo, st.at, answers)
			} else {
				Decide(st.op, items, st.at, answers)
			}
			wants := decideModels(st.op, models, st.at, memory.of(st.id), full, st.once)
			memory.check(t, &st)
			for i, want := range wants {
				decisions++
				want.RetryAfter, want.ResetAfter, want.NextAfter = answers[i].RetryAfter, answers[i].ResetAfter, answers[i].NextAfter
				if answers[i] != want {
					t.Fatalf("%+v\nstep: %+v\nlimit %d answers: %+v\nwant: %+v", limits, st, i, answers[i], want)
				}
				if !st.refusedForGood(&answers[i]) {
					models[i].checkModelTimes(t, &answers[i])
				}
			}
			now = st.at
		}
	})
}
