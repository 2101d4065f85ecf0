package storetest

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/slidegate/slidegate/rule"
	"github.com/slidegate/slidegate/store"
)

// applyFunc is Store.Apply, or what stands in for it.
type applyFunc func(ctx context.Context, batch []store.Request) error

// unfilled is what the places for answers hold before a store is asked: nothing that a store would write, so that a place
// or a field that it leaves out shows.
var unfilled = rule.Answer{
	Allowed: true, Flags: 0xff, Granted: -1, Remaining: -1, RetryAfter: -1, ResetAfter: -1, NextAfter: -1, At: -1,
}

// errStale stands in requests before a store is asked, which has to take it out.
var errStale = errors.New("left over from before")

// newRequest makes a request with its own copy of the charges.
func newRequest(op rule.Op, group string, charges ...store.Charge) store.Request {
	answers := make([]rule.Answer, len(charges))
	for i := range answers {
		answers[i] = unfilled
	}
	return store.Request{Op: op, Group: group, Charges: slices.Clone(charges), Answers: answers, Err: errStale}
}

// decide sends one request and returns its answers, or what is wrong with the way it was answered.
func decide(
	ctx context.Context, apply applyFunc, op rule.Op, group string, charges ...store.Charge,
) ([]rule.Answer, error) {
	return decideAs(ctx, apply, 0, op, group, charges...)
}

// decideAs is decide for a reservation.
func decideAs(
	ctx context.Context, apply applyFunc, id rule.ID, op rule.Op, group string, charges ...store.Charge,
) ([]rule.Answer, error) {
	batch := []store.Request{newRequest(op, group, charges...)}
	batch[0].ID = id
	err := apply(ctx, batch)
	keep(ctx, op, group, charges, batch[0].Answers, err)
	if err != nil {
		return nil, err
	}
	return batch[0].Answers, answered(&batch[0])
}

// answered tells what is wrong with a request that is said to be answered.
func answered(request *store.Request) error {
	if request.Err == errStale {
		return errors.New("the store left Err as it was; it must be nil after success")
	}
	if request.Err != nil {
		return fmt.Errorf("Apply returned nil, but left an error in Err: %w", request.Err)
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

// take asks for a single charge, through TakeSingle if the caller wants and the store has it.
func take(ctx context.Context, st store.Store, charge store.Charge, one bool) (rule.Answer, error) {
	if taker, ok := st.(store.SingleTaker); ok && one {
		return takeOne(ctx, taker, charge)
	}
	return askOne(ctx, st, rule.Take, charge)
}

// takeOne asks through TakeSingle and makes an Answer of what it returns.
func takeOne(ctx context.Context, taker store.SingleTaker, charge store.Charge) (a rule.Answer, err error) {
	a.Allowed, a.Flags, a.Remaining, a.RetryAfter, a.ResetAfter, a.At, err =
		taker.TakeSingle(ctx, charge.Limit, charge.Key, charge.Cost)
	if a.Allowed {
		a.Granted, a.NextAfter, a.RetryAfter = charge.Cost, a.RetryAfter, 0
	}
	keep(ctx, rule.Take, "", []store.Charge{charge}, []rule.Answer{a}, err)
	return a, err
}

// askOne asks the store alone for a single charge without a group.
func askOne(ctx context.Context, store store.Store, op rule.Op, charge store.Charge) (rule.Answer, error) {
	answers, err := decide(ctx, store.Apply, op, "", charge)
	if err != nil {
		return rule.Answer{}, err
	}
	return answers[0], nil
}
