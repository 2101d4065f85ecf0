package rule

import (
	"testing"

	"pgregory.net/rapid"
)

// Does the implementation decide as the model does? Any limit, any script, every field.

func TestSameAsModel(t *testing.T) {
	property(t, 2_000, func(t *rapid.T) {
		l := drawLimit(t)
		m, s := newModel(&l), State{}
		now, last := drawOrigin(t, &l), Answer{}
		for range rapid.IntRange(1, 40).Draw(t, "steps") {
			if rapid.IntRange(0, 19).Draw(t, "change") == 0 {
				l = drawChange(t, l)
			}
			st := drawStep(t, &l, &s, now, &last)
			before := s.Clone()
			a, changed, cost := ask(t, &l, &s, st)
			asks := []asked{{limit: &l, model: m, cost: st.cost, moment: st.back}}
			want := decideModels(st.op, asks, st.at)[0]
			want.RetryAfter, want.ResetAfter = a.RetryAfter, a.ResetAfter
			if a != want || cost != asks[0].cost {
				t.Fatalf("%+v\nasked: %+v\nstate: %+v\nmodel: %+v\nanswer:%+v\nwant:  %+v", l, st, before, m, a, want)
			}
			asks[0].checkModelTimes(t, &a)
			if !changed && !sameState(&before, &s) {
				t.Fatalf("%+v\nasked: %+v\nreported as unchanged: %+v to %+v", l, st, before, s)
			}
			checkAnswer(t, &l, &a)
			checkState(t, &l, &s)
			m, now, last = asks[0].model, st.at, a
		}
	})
}

// drawChange returns another limit of the same shape.
func drawChange(t *rapid.T, l Limit) Limit {
	if l.Algorithm == SlidingWindow {
		l.Overlap = Overlap(rapid.IntRange(0, 2).Draw(t, "overlap"))
	}
	l.CountDenied = rapid.Bool().Draw(t, "count denied")
	if rapid.Bool().Draw(t, "beside") {
		l.Quota = clamp(l.Quota+rapid.Int64Range(-1, 1).Draw(t, "quota"), 1, MaxQuota)
		if n, err := l.Normalize(); err == nil {
			return n
		}
	}
	return drawQuota(t, l)
}

// Several limits at once: as many models, the same request.
func TestSeveralSameAsModels(t *testing.T) {
	property(t, 700, func(t *rapid.T) {
		n := rapid.IntRange(1, 4).Draw(t, "limits")
		limits, states, asks := make([]Limit, n), make([]State, n), make([]asked, n)
		for i := range limits {
			limits[i] = drawLimit(t)
			asks[i] = asked{limit: &limits[i], model: newModel(&limits[i])}
		}
		now, answers := drawOrigin(t, &limits[0]), make([]Answer, n)
		for range rapid.IntRange(1, 20).Draw(t, "steps") {
			lead := rapid.IntRange(0, n-1).Draw(t, "lead") // whose moments and costs this step goes by
			st := drawStep(t, &limits[lead], &states[lead], now, &answers[lead])
			items := make([]Item, n)
			for i := range items {
				cost := st.cost
				if rapid.IntRange(0, 3).Draw(t, "own cost") == 0 {
					cost = drawCost(t, &limits[i], limits[i].Look(&states[i], st.at).Room)
				}
				items[i] = Item{Limit: &limits[i], State: &states[i], Cost: cost, At: st.back}
				asks[i].cost, asks[i].moment = cost, st.back
			}
			Decide(st.op, items, st.at, answers)
			for i, want := range decideModels(st.op, asks, st.at) {
				want.RetryAfter, want.ResetAfter = answers[i].RetryAfter, answers[i].ResetAfter
				if answers[i] != want {
					t.Fatalf("%+v\nasked: %+v\nlimit %d answers: %+v\nwant: %+v", limits, st, i, answers[i], want)
				}
				asks[i].checkModelTimes(t, &answers[i])
			}
			now = st.at
		}
	})
}
