package failure

import (
	"context"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/slidegate/slidegate/internal/adapter"
	"github.com/slidegate/slidegate/internal/answering"
	"github.com/slidegate/slidegate/rule"
	"github.com/slidegate/slidegate/store"
)

// local is Options.Local, with this process's share of each limit.
type local struct {
	store     store.Store
	one       store.SingleTaker // the same store
	instances int64
	shares    [1024]atomic.Pointer[share] // by the limit's ID; a miss is bound again, to the same address
	work      sync.Pool                   // of *localRequest
}

// share is this process's share of a limit.
type share struct{ whole, part *store.Limit }

// localRequest is reusable memory for a request to the fallback.
type localRequest struct {
	batch   [1]store.Request
	charges []store.Charge
	answers []rule.Answer
}

func newLocal(fallback store.Store, instances int) *local {
	l := &local{store: fallback, one: store.Single(fallback), instances: int64(max(1, instances))}
	l.work.New = func() any { return new(localRequest) }
	return l
}

// share returns this process's share of limit. It has the same name and shape, and so the same address.
func (l *local) share(limit *store.Limit) (*store.Limit, error) {
	if l.instances == 1 {
		return limit, nil
	}
	cell := &l.shares[limit.ID()%uint64(len(l.shares))]
	if known := cell.Load(); known != nil && known.whole == limit {
		return known.part, nil
	}
	divided := adapter.Unbind(limit)
	divided.Quota = l.divide(divided.Quota)
	divided.Burst = l.divide(divided.Burst)
	part, err := adapter.Bind(limit.Namespace(), divided)
	if err != nil && divided.Burst > 1 { // rounded up, the bucket takes longer to fill than is valid; rounded down it does not
		divided.Burst--
		part, err = adapter.Bind(limit.Namespace(), divided)
	}
	if err != nil {
		return nil, err
	}
	cell.Store(&share{whole: limit, part: part})
	return part, nil
}

// divide rounds up, so that only 0 becomes 0.
func (l *local) divide(n int64) int64 { return n/l.instances + min(1, n%l.instances) }

func (l *local) takeOne(ctx context.Context, limit *store.Limit, key string, cost int64) (
	allowed bool, flags rule.Flags, remaining int64, after, resetAfter, at rule.Micros, err error,
) {
	if limit, err = l.share(limit); err != nil {
		return false, 0, 0, 0, 0, 0, err
	}
	return l.one.TakeSingle(ctx, limit, key, cost)
}

// apply decides a request by the fallback.
func (l *local) apply(ctx context.Context, r *store.Request) error {
	q := l.work.Get().(*localRequest)
	defer l.end(q)
	if err := l.call(ctx, q, r, r.Answers); err != nil {
		return err
	}
	for i := range r.Charges {
		r.Answers[i].Flags |= rule.FallbackLocal
	}
	return nil
}

// fill sets the empty answers of a request to what the fallback would answer, if it does.
func (l *local) fill(ctx context.Context, r *store.Request) {
	q := l.work.Get().(*localRequest)
	defer l.end(q)
	q.answers = append(q.answers[:0], make([]rule.Answer, len(r.Charges))...)
	look := *r
	look.Op, look.Charges = rule.Peek, slices.Clone(r.Charges)
	for i := range look.Charges {
		look.Charges[i].Cost = leastCost(r.Op, &r.Charges[i])
	}
	if err := l.call(ctx, q, &look, q.answers); err != nil {
		return
	}
	for i := range r.Charges {
		if a := &r.Answers[i]; *a == (rule.Answer{}) {
			*a = q.answers[i]
			a.Flags |= rule.FallbackLocal
			a.At = answering.Mark(a.At, 0)
		}
	}
}

// reset resets the keys of a request, and leaves its answers unchanged.
func (l *local) reset(ctx context.Context, r *store.Request) error {
	q := l.work.Get().(*localRequest)
	defer l.end(q)
	q.answers = append(q.answers[:0], make([]rule.Answer, len(r.Charges))...)
	return l.call(ctx, q, r, q.answers)
}

func (l *local) call(ctx context.Context, q *localRequest, r *store.Request, answers []rule.Answer) error {
	for _, c := range r.Charges {
		var err error
		if c.Limit, err = l.share(c.Limit); err != nil {
			return err
		}
		c.At, _ = answering.Unmark(c.At) // marked if it was taken here
		q.charges = append(q.charges, c)
	}
	q.batch[0] = store.Request{Op: r.Op, Group: r.Group, ID: r.ID, Hold: r.Hold, Once: r.Once, Charges: q.charges, Answers: answers}
	return l.store.Apply(ctx, q.batch[:])
}

// end recycles q, cleared of the caller's keys.
func (l *local) end(q *localRequest) {
	clear(q.charges)
	q.charges = q.charges[:0]
	q.batch[0] = store.Request{}
	l.work.Put(q)
}
