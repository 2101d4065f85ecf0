package failure

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"

	"github.com/slidegate/slidegate"
	"github.com/slidegate/slidegate/internal/answering"
	"github.com/slidegate/slidegate/rule"
	"github.com/slidegate/slidegate/store"
)

// What was taken without the store belongs to the layer that took it: to its Local or, in FailOpen, to nothing. The mark of its At says
// to which. A layer's mark is random, and there are 1,023.

// ErrElsewhere means that another process took what is to be settled, returned or renewed while the store did not answer. It
// wraps slidegate.ErrReservation.
var ErrElsewhere = fmt.Errorf("%w: another process took it while the store did not answer, and counts it; "+
	"send it to that process, or leave it to expire there", slidegate.ErrReservation)

// nowhere is the mark of what was admitted and not counted.
const nowhere = 0

// newMark returns the mark of a layer's Local.
func newMark() int { return 1 + rand.IntN(answering.MaxMark) }

// markAll marks the times of a request's answers.
func markAll(r *store.Request, mark int) {
	for i := range r.Charges {
		r.Answers[i].At = answering.Mark(r.Answers[i].At, mark)
	}
}

// finishFallback refunds, settles or renews what was taken without the store, where it was taken.
func (s *Store) finishFallback(ctx context.Context, r *store.Request) error {
	if len(r.Answers) < len(r.Charges) {
		return fmt.Errorf("failure: %w: a request has an answer for each charge, not %d for %d",
			store.ErrUnsupported, len(r.Answers), len(r.Charges))
	}
	mark, err := s.markOf(r)
	if err != nil {
		return err
	}
	if mark == s.mark {
		err = s.local.apply(ctx, r)
	} else {
		err = s.finishUncounted(ctx, r)
	}
	if err != nil {
		return err
	}
	markAll(r, mark)
	return nil
}

// markOf returns the mark of all charges of a request that have one.
func (s *Store) markOf(r *store.Request) (mark int, err error) {
	mark = -1
	for i := range r.Charges {
		_, other := answering.Unmark(r.Charges[i].At)
		switch {
		case r.Charges[i].At == rule.Oldest:
		case other > nowhere && other != s.mark:
			return 0, fmt.Errorf("failure: %w", ErrElsewhere)
		case other < nowhere, mark >= nowhere && other != mark:
			return 0, fmt.Errorf("failure: %w: a request about what was taken in different places, such as the store and this process; %s them separately",
				store.ErrUnsupported, r.Op)
		default:
			mark = other
		}
	}
	return mark, nil
}

// finishUncounted refunds, settles or renews what was counted nowhere. Nothing changes, except that Local remembers that a
// reservation was settled. A slot of that kind is not lost.
func (s *Store) finishUncounted(ctx context.Context, r *store.Request) error {
	look := *r
	if look.Charges = slices.Clone(r.Charges); r.Op == rule.GiveBack {
		look.Op = rule.Peek
	}
	for i := range look.Charges {
		look.Charges[i].Cost, look.Charges[i].Used = 0, 0
	}
	err := s.local.apply(ctx, &look)
	for i := range r.Charges {
		a := &r.Answers[i]
		a.Allowed, a.Granted, a.RetryAfter = true, 0, 0
	}
	return err
}
