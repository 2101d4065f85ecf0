package failure

import (
	"context"
	"sync"
	"sync/atomic"

	"github.com/slidegate/slidegate"
	"github.com/slidegate/slidegate/rule"
)

// local is the fallback of the policy Local, with this process's share of each limit.
type local struct {
	store     slidegate.Store
	one       slidegate.OneTaker // the same store
	instances int64
	shares    [1024]atomic.Pointer[share] // by the limit's ID; a miss is bound again, to the same address
	work      sync.Pool                   // of *question
}

// share is what this process may use of a limit.
type share struct{ whole, part *slidegate.BoundLimit }

// question is memory for a request to the fallback.
type question struct {
	batch   [1]slidegate.Request
	charges []slidegate.Charge
	answers []slidegate.Answer
}

func newLocal(store slidegate.Store, instances int) *local {
	l := &local{store: store, one: oneTaker(store), instances: int64(max(1, instances))}
	l.work.New = func() any { return new(question) }
	return l
}

// share returns the limit that the fallback keeps for limit. Name and shape stay, and with them the address.
func (l *local) share(limit *slidegate.BoundLimit) (*slidegate.BoundLimit, error) {
	if l.instances == 1 {
		return limit, nil
	}
	place := &l.shares[limit.ID()%uint64(len(l.shares))]
	if known := place.Load(); known != nil && known.whole == limit {
		return known.part, nil
	}
	divided := limit.Limit()
	divided.Quota = l.divide(divided.Quota)
	divided.Burst = l.divide(divided.Burst)
	part, err := slidegate.Bind(limit.Namespace(), divided)
	if err != nil && divided.Burst > 1 { // rounded up, the bucket takes longer to fill than buckets may; rounded down it does not
		divided.Burst--
		part, err = slidegate.Bind(limit.Namespace(), divided)
	}
	if err != nil {
		return nil, err
	}
	place.Store(&share{whole: limit, part: part})
	return part, nil
}

// divide rounds up, so that nothing but 0 becomes 0.
func (l *local) divide(n int64) int64 { return n/l.instances + min(1, n%l.instances) }

func (l *local) takeOne(ctx context.Context, limit *slidegate.BoundLimit, key string, cost int64) (
	allowed bool, flags slidegate.Flags, remaining int64, retryAfter, resetAfter, at slidegate.Micros, err error,
) {
	if limit, err = l.share(limit); err != nil {
		return false, 0, 0, 0, 0, 0, err
	}
	return l.one.TakeOne(ctx, limit, key, cost)
}

// apply has the fallback answer a request.
func (l *local) apply(ctx context.Context, r *slidegate.Request) error {
	q := l.work.Get().(*question)
	defer l.end(q)
	if err := l.ask(ctx, q, r, r.Answers); err != nil {
		return err
	}
	for i := range r.Charges {
		a := &r.Answers[i]
		a.Flags |= rule.FallbackLocal
		a.At = elsewhere(a.At)
	}
	return nil
}

// reset forgets the keys of a request, and leaves its answers alone.
func (l *local) reset(ctx context.Context, r *slidegate.Request) error {
	q := l.work.Get().(*question)
	defer l.end(q)
	q.answers = append(q.answers[:0], make([]slidegate.Answer, len(r.Charges))...)
	return l.ask(ctx, q, r, q.answers)
}

func (l *local) ask(ctx context.Context, q *question, r *slidegate.Request, answers []slidegate.Answer) error {
	for _, c := range r.Charges {
		var err error
		if c.Limit, err = l.share(c.Limit); err != nil {
			return err
		}
		c.At = max(c.At, -c.At) // negative if it was taken here
		q.charges = append(q.charges, c)
	}
	q.batch[0] = slidegate.Request{Op: r.Op, Group: r.Group, Charges: q.charges, Answers: answers}
	return l.store.Apply(ctx, q.batch[:])
}

// end gives the memory back, without the caller's keys in it.
func (l *local) end(q *question) {
	clear(q.charges)
	q.charges = q.charges[:0]
	q.batch[0] = slidegate.Request{}
	l.work.Put(q)
}

// oneTaker returns the quick way for a single charge: the store's own, or one over Apply.
func oneTaker(store slidegate.Store) slidegate.OneTaker {
	if one, ok := store.(slidegate.OneTaker); ok {
		return one
	}
	return byApply{store}
}

type byApply struct{ store slidegate.Store }

// single is a request of one charge, with its memory.
type single struct {
	batch  [1]slidegate.Request
	charge [1]slidegate.Charge
	answer [1]slidegate.Answer
}

var singles = sync.Pool{New: func() any { return new(single) }}

func (b byApply) TakeOne(ctx context.Context, limit *slidegate.BoundLimit, key string, cost int64) (
	allowed bool, flags slidegate.Flags, remaining int64, retryAfter, resetAfter, at slidegate.Micros, err error,
) {
	q := singles.Get().(*single)
	q.charge[0] = slidegate.Charge{Limit: limit, Key: key, Cost: cost}
	q.batch[0] = slidegate.Request{Op: slidegate.OpTake, Charges: q.charge[:], Answers: q.answer[:]}
	err = b.store.Apply(ctx, q.batch[:])
	a := q.answer[0]
	*q = single{}
	singles.Put(q)
	return a.Allowed, a.Flags, a.Remaining, a.RetryAfter, a.ResetAfter, a.At, err
}
