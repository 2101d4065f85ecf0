package storetest

import (
	"context"
	"slices"
	"testing"

	"github.com/slidegate/slidegate/internal/answering"
	"github.com/slidegate/slidegate/rule"
	"github.com/slidegate/slidegate/store"
)

// planted is the reference with a replacement for its Apply.
type planted struct {
	*Reference
	apply   applyFunc
	takeOne applyFunc // replaces TakeSingle; nil if it does what Apply does
}

func (p *planted) Apply(ctx context.Context, batch []store.Request) error {
	return p.apply(ctx, batch)
}

func (p *planted) TakeSingle(ctx context.Context, limit *store.Limit, key string, cost int64) (
	allowed bool, flags rule.Flags, remaining int64, after, resetAfter, at rule.Micros, err error,
) {
	apply := p.apply
	if p.takeOne != nil {
		apply = p.takeOne
	}
	batch := []store.Request{newRequest(rule.Take, "", store.Charge{Limit: limit, Key: key, Cost: cost})}
	err = apply(ctx, batch)
	a := batch[0].Answers[0]
	return a.Allowed, a.Flags, a.Remaining, answering.After(&a), a.ResetAfter, a.At, err
}

// plant opens stores whose Apply is made from a reference.
func plant(apply func(r *Reference) applyFunc) Open {
	return func(_ testing.TB, clock *Clock) store.Store {
		r := NewReference(clock)
		return &planted{Reference: r, apply: apply(r)}
	}
}

// deciding opens stores that decide each request with the given function.
func deciding(decide func(r *Reference, request *store.Request)) Open {
	return plant(func(r *Reference) applyFunc {
		return func(ctx context.Context, batch []store.Request) error {
			var first error
			for i := range batch {
				if batch[i].Err = contextError(ctx); batch[i].Err == nil {
					decide(r, &batch[i])
				} else if first == nil {
					first = batch[i].Err
				}
			}
			return first
		}
	})
}

// preparing opens stores that change the states of a request before they decide it, with the lock held.
func preparing(prepare func(r *Reference, limit *rule.Limit, address string, now rule.Micros)) Open {
	return deciding(func(r *Reference, request *store.Request) {
		r.mu.Lock()
		defer r.mu.Unlock()
		now := r.clock.Now()
		for _, charge := range request.Charges {
			prepare(r, charge.Limit.Rule(), address(charge.Limit.Prefix(), request.Group, charge.Key), now)
		}
		r.decideLocked(request, now)
	})
}

// misanswering opens stores that decide correctly and then spoil the answers.
func misanswering(spoil func(op rule.Op, charge store.Charge, answer *rule.Answer, now rule.Micros)) Open {
	return deciding(func(r *Reference, request *store.Request) {
		r.decide(request)
		for i := range request.Answers {
			spoil(request.Op, request.Charges[i], &request.Answers[i], r.clock.Now())
		}
	})
}

// misreading opens stores that misread requests.
func misreading(misread func(request *store.Request)) Open {
	return deciding(func(r *Reference, request *store.Request) {
		mistaken := *request
		mistaken.Charges = slices.Clone(request.Charges)
		misread(&mistaken)
		r.decide(&mistaken)
	})
}

// misaddressing opens stores that mix up addresses.
func misaddressing(misaddress func(group *string, charge *store.Charge)) Open {
	return misreading(func(request *store.Request) {
		group := request.Group
		for i := range request.Charges {
			request.Group = group
			misaddress(&request.Group, &request.Charges[i])
		}
	})
}

// part returns a request with one charge of another request, and its answer.
func part(request *store.Request, i int) *store.Request {
	return &store.Request{
		Op: request.Op, Group: request.Group, ID: request.ID, Hold: request.Hold, Once: request.Once,
		Charges: request.Charges[i : i+1], Answers: request.Answers[i : i+1],
	}
}
