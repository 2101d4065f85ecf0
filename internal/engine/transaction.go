package engine

import (
	"context"

	"github.com/slidegate/slidegate/policy"
)

// Begin returns a request without parts.
func (s *Set) Begin() *Transaction {
	t := s.transactions.Get().(*Transaction)
	t.set = s
	return t
}

// End recycles the request, cleared of its keys. Neither the request nor the result of Trials may be used afterwards.
// It releases the slots that the request still holds, and settles held units at what they were taken for, unless they are SlotsReserved.
func (t *Transaction) End() {
	if t.Slots == SlotsHeld && t.holdsSlots() {
		t.Finish(context.Background(), nil, nil)
		return
	}
	t.recycle()
}

func (t *Transaction) recycle() {
	s := t.set
	clear(t.given)
	clear(t.parts)
	clear(t.decided)
	clear(t.tried)
	clear(t.penalties)
	t.plan.reset(0)
	t.held.reset()
	t.Group, t.Record, t.Slots, t.set, t.waited, t.trying = "", false, SlotsNone, nil, false, false
	t.given = t.given[:0]
	t.parts = t.parts[:0]
	t.decided = t.decided[:0]
	t.tried = t.tried[:0]
	t.penalties = t.penalties[:0]
	if cap(t.plan.batch.charges) <= maxKept {
		s.transactions.Put(t)
	}
}

// Add adds a part to the request.
func (t *Transaction) Add(given Part) { t.given = append(t.given, given) }

// HoldAll sets Hold on every part that costs something, for a caller that may have to refund what it took.
func (t *Transaction) HoldAll() {
	for i := range t.given {
		if t.given[i].Cost != 0 {
			t.given[i].Hold = true
		}
	}
}

// Decided returns the decisions of the last Decide, if Record is set, without those of Trials: one for each policy that
// admitted the request, or one for each that refused it. It is empty if only one policy decided.
func (t *Transaction) Decided() []policy.Decision {
	if len(t.parts) < 2 {
		return nil
	}
	return t.decided
}

// Trials returns the decisions of the shadow policies for the last Decide, if Record is set.
func (t *Transaction) Trials() []policy.Decision { return t.tried }
