package engine

import (
	"context"
	"slices"

	"github.com/slidegate/slidegate/internal/batches"
	"github.com/slidegate/slidegate/internal/detach"
	"github.com/slidegate/slidegate/internal/line"
	"github.com/slidegate/slidegate/rule"
	"github.com/slidegate/slidegate/store"
)

// batch is a batch of requests to a store. Its memory is reused.
type batch struct {
	requests []store.Request
	ends     []int // where the charges of each request end
	charges  []store.Charge
	answers  []rule.Answer
}

// maxKept is the number of charges up to which memory is kept: a larger batch is rare, and its memory would stay
// forever.
const maxKept = 4096

// reset empties the batch.
func (b *batch) reset() {
	clear(b.requests)
	clear(b.charges)
	b.requests = b.requests[:0]
	b.ends = b.ends[:0]
	b.charges = b.charges[:0]
	b.answers = b.answers[:0]
}

// begin begins a new request.
func (b *batch) begin(op rule.Op) {
	b.requests = append(b.requests, store.Request{Op: op})
	b.ends = append(b.ends, len(b.charges))
}

// mark makes the last request, a Take, hold units, or count once under an ID unless that is empty.
func (b *batch) mark(holds bool, once string) {
	r := &b.requests[len(b.requests)-1]
	r.Hold = r.Hold || holds
	if once != "" {
		r.ID, r.Once = store.IDOf(once), true
	}
}

// add adds one charge to the last request, and returns its index among all charges.
func (b *batch) add(charge store.Charge) (index int) {
	b.charges = append(b.charges, charge)
	b.ends[len(b.ends)-1] = len(b.charges)
	return len(b.charges) - 1
}

// addBundle adds limits to the last request, all for the key and cost of a part. Taking from an in-flight limit takes one
// slot.
func (b *batch) addBundle(of *bundle, part *Part, slots bool) {
	op := b.requests[len(b.requests)-1].Op
	cost := part.costOf(op)
	if part.later && op == rule.Take {
		cost = 1
	}
	for _, limit := range of.bound {
		charge := store.Charge{Limit: limit, Key: part.Key, Cost: cost}
		switch {
		case !of.slots || isRate(limit):
		case slots:
			charge.Cost = 1
		default:
			charge.Cost = 0
		}
		b.charges = append(b.charges, charge)
	}
	b.ends[len(b.ends)-1] = len(b.charges)
}

// at returns the request that contains a charge, and the answer to the charge.
func (b *batch) at(index int) (*store.Request, *rule.Answer) {
	request, found := slices.BinarySearch(b.ends, index)
	if found { // a charge comes before the end of its request
		request++
	}
	return &b.requests[request], &b.answers[index]
}

// apply calls the store. Each request has its own error. The id identifies the reservation that the requests belong to,
// or is 0.
func (b *batch) apply(ctx context.Context, group string, id rule.ID, on store.Store) {
	b.address(group, id)
	if err := on.Apply(ctx, b.requests); err != nil {
		batches.Spread(b.requests, err)
	}
	line.ReturnedBy(on, b.requests)
}

// reserve is apply for requests that take under an id; see detach.Reserve.
func (b *batch) reserve(ctx context.Context, group string, id rule.ID, on store.Store) (cancelled <-chan struct{}) {
	b.address(group, id)
	cancelled, err := detach.Reserve(ctx, on, b.requests)
	if err != nil {
		batches.Spread(b.requests, err)
	}
	line.ReturnedAfter(cancelled, line.Scope(on, nil), group, b.charges)
	return cancelled
}

// address completes the requests of the batch.
func (b *batch) address(group string, id rule.ID) {
	b.answers = slices.Grow(b.answers[:0], len(b.charges))[:len(b.charges)]
	from := 0
	for i, to := range b.ends {
		r := &b.requests[i]
		r.Group, r.Charges, r.Answers = group, b.charges[from:to:to], b.answers[from:to:to]
		if id != 0 {
			r.ID = id
		}
		from = to
	}
}
