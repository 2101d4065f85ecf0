package storetest

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/slidegate/slidegate/rule"
	"github.com/slidegate/slidegate/store"
)

// applyFunc is Store.Apply, or a replacement for it.
type applyFunc func(ctx context.Context, batch []store.Request) error

// unfilled is in every answer before the store is called. No store would write it, so an answer or a field that a store
// leaves out is noticed.
var unfilled = rule.Answer{
	Allowed: true, Flags: 0xff, Granted: -1, Remaining: -1, RetryAfter: -1, ResetAfter: -1, NextAfter: -1, At: -1,
}

// errStale is in every request before the store is called, which must replace it.
var errStale = errors.New("left over from an earlier request")

// newRequest returns a request with its own copy of the charges.
func newRequest(op rule.Op, group string, charges ...store.Charge) store.Request {
	answers := make([]rule.Answer, len(charges))
	for i := range answers {
		answers[i] = unfilled
	}
	return store.Request{Op: op, Group: group, Charges: slices.Clone(charges), Answers: answers, Err: errStale}
}

// decide sends one request and returns its answers, or an error if it was not answered correctly.
func decide(
	ctx context.Context, apply applyFunc, op rule.Op, group string, charges ...store.Charge,
) ([]rule.Answer, error) {
	return decideAs(ctx, apply, 0, op, group, charges...)
}

// decideAs is decide for a reservation.
func decideAs(
	ctx context.Context, apply applyFunc, id rule.ID, op rule.Op, group string, charges ...store.Charge,
) ([]rule.Answer, error) {
	return decideFull(ctx, apply, store.Request{Op: op, Group: group, ID: id, Charges: charges})
}

// checkAnswered returns an error if a request that Apply reports as answered is not.
func checkAnswered(request *store.Request) error {
	if request.Err == errStale {
		return errors.New("the store did not set Err; it must be nil after success")
	}
	if request.Err != nil {
		return fmt.Errorf("Apply returned nil, but Err is set: %w", request.Err)
	}
	if len(request.Answers) != len(request.Charges) {
		return fmt.Errorf("the store changed the length of Answers to %d", len(request.Answers))
	}
	for i, answer := range request.Answers {
		if answer.At == unfilled.At || answer.Remaining == unfilled.Remaining {
			return fmt.Errorf("the store left answer %d of %d unfilled", i+1, len(request.Answers))
		}
	}
	return nil
}

// take sends a single charge, through TakeSingle if single is set and the store implements it.
func take(ctx context.Context, st store.Store, charge store.Charge, single bool) (rule.Answer, error) {
	if taker, ok := st.(store.SingleTaker); ok && single {
		return takeOne(ctx, taker, charge)
	}
	return decideOne(ctx, st, rule.Take, charge)
}

// takeOne calls TakeSingle and returns its results as an Answer.
func takeOne(ctx context.Context, taker store.SingleTaker, charge store.Charge) (a rule.Answer, err error) {
	a.Allowed, a.Flags, a.Remaining, a.RetryAfter, a.ResetAfter, a.At, err =
		taker.TakeSingle(ctx, charge.Limit, charge.Key, charge.Cost)
	if a.Allowed {
		a.Granted, a.NextAfter, a.RetryAfter = charge.Cost, a.RetryAfter, 0
	}
	logRequest(ctx, rule.Take, "", []store.Charge{charge}, []rule.Answer{a}, err)
	return a, err
}

// decideOne sends a single charge without a group to the store only.
func decideOne(ctx context.Context, store store.Store, op rule.Op, charge store.Charge) (rule.Answer, error) {
	answers, err := decide(ctx, store.Apply, op, "", charge)
	if err != nil {
		return rule.Answer{}, err
	}
	return answers[0], nil
}

// decideRequest sends a request of a single charge, with all of its fields, and returns its answer.
func decideRequest(ctx context.Context, apply applyFunc, r store.Request) (rule.Answer, error) {
	answers, err := decideFull(ctx, apply, r)
	if err != nil {
		return rule.Answer{}, err
	}
	return answers[0], nil
}

// decideFull is decide for a request with all of its fields.
func decideFull(ctx context.Context, apply applyFunc, r store.Request) ([]rule.Answer, error) {
	batch := []store.Request{newRequest(r.Op, r.Group, r.Charges...)}
	batch[0].ID, batch[0].Hold, batch[0].Once = r.ID, r.Hold, r.Once
	err := apply(ctx, batch)
	logRequest(ctx, r.Op, r.Group, r.Charges, batch[0].Answers, err)
	if err != nil {
		return nil, err
	}
	return batch[0].Answers, checkAnswered(&batch[0])
}
