package storetest

import (
	"context"
	"testing"

	"github.com/slidegate/slidegate/store"
)

// checkSingleTaker: TakeSingle, if the store implements it, decides as Apply does and uses the same state.
func checkSingleTaker(t testing.TB, s *suite) {
	p := s.pair(t)
	taker, ok := p.store.(store.SingleTaker)
	if !ok {
		t.Skip("the store is not a SingleTaker")
	}
	one := applyOne(taker)
	for i, limit := range catalogue() {
		q := p.sequence(i, onlyTake, limit)
		if q == nil {
			continue
		}
		for range s.times(20) {
			q.mix = onlyTake
			if q.random.IntN(3) > 0 {
				q.step(one)
				continue
			}
			q.mix = everyOp // what Apply did in between shows in TakeSingle's answers, and vice versa
			q.step(p.store.Apply)
		}
	}
}

// applyOne is Apply for a batch of one take, implemented with TakeSingle.
func applyOne(taker store.SingleTaker) applyFunc {
	return func(ctx context.Context, batch []store.Request) error {
		request := &batch[0]
		request.Answers[0], request.Err = takeOne(ctx, taker, request.Charges[0])
		return request.Err
	}
}
