package storetest

import (
	"context"
	"fmt"
	"testing"

	"github.com/slidegate/slidegate"
	"github.com/slidegate/slidegate/store"
)

// checkBatch: a batch is answered as if its requests had come one by one, in their order.
func checkBatch(t testing.TB, s *suite) {
	p := s.pair(t)
	if err := p.store.Apply(context.Background(), nil); err != nil {
		t.Fatalf("an empty batch failed: %v", err)
	}
	sizes := []int{1, 2, 7, 50}
	for i, limit := range append(smallLimits(), extremeLimits()...) {
		q := p.sequence(i, everyOp, limit)
		if q == nil {
			continue
		}
		for _, size := range sizes[:s.times(len(sizes))] {
			q.move(q.charges()[0])
			q.playBatch(size)
		}
	}
	checkMixedBatches(p)
	if q := p.sequence(1_000, onlyTake, slidegate.PerHour(100)); q != nil {
		q.playBatch(s.times(1_000))
	}
}

// checkMixedBatches: requests over several limits share some addresses and not others. Their order matters only if they
// share one, so the answers are still those of one by one.
func checkMixedBatches(p *pair) {
	if p.store.Traits().MaxCharges == 1 {
		p.t.Log("not checked: requests over several limits in a batch, because Traits.MaxCharges is 1")
		return
	}
	for i := range p.suite.times(10) {
		if q := p.sequence(2_000+i, everyOp, smallLimits()...); q != nil {
			q.group, q.maxCharges = "group", min(3, p.store.Traits().MaxCharges)
			q.playBatch(40)
		}
	}
}

// playBatch sends n random requests in one batch, and to the reference one by one.
func (q *sequence) playBatch(n int) {
	q.t.Helper()
	var got, want []store.Request
	for range n {
		op, charges := q.mix[q.random.IntN(len(q.mix))], q.charges()
		id := q.id(op, charges)
		q.record(&store.Request{Op: op, Group: q.group, Charges: charges})
		got = append(got, newRequest(op, q.group, charges...))
		want = append(want, newRequest(op, q.group, charges...))
		got[len(got)-1].ID, want[len(want)-1].ID = id, id
	}
	if err := q.store.Apply(context.Background(), got); err != nil {
		q.fatalf("the store failed: %v", err)
	}
	for i := range want {
		if err := q.reference.Apply(context.Background(), want[i:i+1]); err != nil {
			q.fatalf("the reference failed: %v", err)
		}
		if err := checkAnswered(&got[i]); err != nil {
			q.fatalf("request %d of %d: %v", i+1, n, err)
		}
		q.recent = []string{fmt.Sprintf("request %d of a batch of %d at %d: %s", i+1, n, q.clock.Now(),
			describe(want[i].Op, q.group, want[i].Charges))}
		q.compare(got[i].Answers, want[i].Answers)
		q.last = want[i].Answers[0]
	}
}
