package history

import (
	"context"
	"math/rand/v2"
	"testing"

	"github.com/slidegate/slidegate/rule"
	"github.com/slidegate/slidegate/store"
	"github.com/slidegate/slidegate/storetest"
)

// The models follow a store step by step whose clock is now this one's and now that one's, and do not if they are not told.
func TestModelsApart(t *testing.T) {
	const apart = rule.Micros(4_000)
	for i := range Limits {
		if isLog(i) {
			continue
		}
		if steps := modelSteps(t, i, apart, apart); steps < 30_000 {
			t.Errorf("%s: step %d has an answer that the model cannot explain", Limits[i].Name, steps)
		}
		if steps := modelSteps(t, i, apart, 0); steps == 30_000 {
			t.Errorf("%s: clocks that are apart do not show", Limits[i].Name)
		}
	}
}

// modelSteps returns how many requests to a store, by clocks that are apart, a model explains that is told so much.
func modelSteps(t *testing.T, limit int, apart, told rule.Micros) int {
	t.Helper()
	limits, err := bound()
	if err != nil {
		t.Fatal(err)
	}
	m := model(limits[limit].Rule(), told)
	clock := storetest.NewClock(0)
	reference := storetest.NewReference(clock)
	a := &asker{random: rand.New(rand.NewPCG(1, uint64(limit))), order: Order{Keys: 1}, limits: limits}
	state, now := m.Init(), base
	for step := range 30_000 {
		e := a.draw()
		for e.Limit != limit {
			e = a.draw()
		}
		now += rule.Micros(a.random.Int64N(40_000))
		clock.Set(now + rule.Micros(a.random.Int64N(int64(apart)+1)))
		batch := []store.Request{a.request(&e)}
		if err := reference.Apply(context.Background(), batch); err != nil {
			t.Fatal(err)
		}
		var ok bool
		if ok, state = m.Step(state, input{op: e.Op, cost: e.Cost, id: e.ID, called: now, end: now}, output{&batch[0].Answers[0]}); !ok {
			return step
		}
	}
	return 30_000
}
