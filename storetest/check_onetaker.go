package storetest

import (
	"context"
	"testing"

	"github.com/slidegate/slidegate"
)

// checkOneTaker: TakeOne, where there is one, answers as Apply does and works on the same state.
func checkOneTaker(t testing.TB, s *suite) {
	p := s.pair(t)
	taker, ok := p.store.(slidegate.OneTaker)
	if !ok {
		t.Skip("the store is no OneTaker")
	}
	one := func(ctx context.Context, batch []slidegate.Request) error {
		request := &batch[0]
		request.Answers[0], request.Err = takeOne(ctx, taker, request.Charges[0])
		return request.Err
	}
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
			q.mix = everyOp // what Apply did in between shows in TakeOne's answers, and the other way round
			q.step(p.store.Apply)
		}
	}
}
