package store

import (
	"context"
	"sync"

	"github.com/slidegate/slidegate/internal/answering"
	"github.com/slidegate/slidegate/rule"
)

// Single returns a SingleTaker for s: s itself if it is one, otherwise one that calls Apply. It lets layers treat all
// stores alike.
func Single(s Store) SingleTaker {
	if one, ok := s.(SingleTaker); ok {
		return one
	}
	return byApply{s}
}

type byApply struct{ store Store }

// single is a request with one charge, and its memory.
type single struct {
	batch  [1]Request
	charge [1]Charge
	answer [1]rule.Answer
}

var singles = sync.Pool{New: func() any { return new(single) }}

func (b byApply) TakeSingle(ctx context.Context, limit *Limit, key string, cost int64) (
	allowed bool, flags rule.Flags, remaining int64, after, resetAfter, at rule.Micros, err error,
) {
	q := singles.Get().(*single)
	q.charge[0] = Charge{Limit: limit, Key: key, Cost: cost}
	q.batch[0] = Request{Op: rule.Take, Charges: q.charge[:], Answers: q.answer[:]}
	err = b.store.Apply(ctx, q.batch[:])
	a := q.answer[0]
	*q = single{}
	singles.Put(q)
	if err != nil {
		return false, 0, 0, 0, 0, 0, err
	}
	return a.Allowed, a.Flags, a.Remaining, answering.After(&a), a.ResetAfter, a.At, nil
}
