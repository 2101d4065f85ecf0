// Package coalesce combines concurrent requests into shared calls to a store, so that a store with round trips serves
// hundreds of callers in a few of them, and all waiters on one hot key are decided together. It is a Store that wraps a
// Store and does not change decisions: each request is decided exactly once, as it would be alone.
//
// A request that arrives while fewer than Options.InFlight calls are under way is sent immediately: on the caller's
// goroutine, with the caller's context and memory, without a timer or an allocation. Later requests wait in a queue.
// When a call returns, the waiting requests are sent together in a shared call. Options.Gather also combines requests that
// arrive in a burst. Over a store with Traits.CostlyCancel all calls are shared calls, some with one caller: then a caller
// that leaves ends none.
//
// Where round trips are long, waiting for one to end would double the time of a request. So while all calls under way began
// 5 to 10 milliseconds ago or earlier, another one may start, up to 16 more than Options.InFlight. Where calls take less, this
// changes nothing.
//
// No two calls under way have an address (the limit's prefix, the group and the key) in common: requests for an address
// that is in flight wait until that call returns, and then go together. So a busy key, or a row that is locked, occupies one
// call, while other keys are decided in others.
//
// It also promises:
//
//   - Requests for one address are decided in order of arrival. A request with several addresses waits until none of them
//     is in flight, and no later request for one of them is sent before it: it waits only for requests that came earlier, so
//     it is not overtaken forever. Requests without a common address may overtake one another.
//   - If a call was not answered in time, the requests that waited for its addresses are sent without requests for other
//     addresses, until a call with the address is answered in time: a locked row holds up other keys once.
//   - A call is bounded by the work that it is for the store, see Options.MaxBatch, and at most half of Options.InFlight are
//     calls with much work per request, unless they have been under way for long. So requests that are quickly decided do not wait behind many that
//     are not, and neither does what goes past this layer.
//   - The requests of one Apply stay in one call, in their order. All operations can share a call, and an error of one
//     request is returned only to its own caller.
//   - Callers do not end a shared call. It has its own context, without values, which ends after Options.Timeout, even if
//     all of its callers have left: ending a call can cost a connection, and the next call would be later still.
//   - A caller whose context ends returns immediately. If its requests were still in the queue, they are removed and
//     are not charged, and the error wraps store.ErrUndone; if they were sent, they may be charged, as with any error of a store.
//   - A store that panics in a shared call does not end the process and leaves no caller waiting: the caller that
//     waited longest panics with a *Panic, the others get an error. If all callers have left, the panic is lost.
//   - A call that does not return does not block others forever: if requests wait for longer than Options.Timeout, a call
//     that is older than that no longer counts towards Options.InFlight, and its addresses are no longer in flight.
//
// It does not bound the time that a store takes if the store ignores its context: such a call holds a goroutine until it
// returns. There is nothing to close: goroutines live only as long as shared calls do, or, with
// Traits.CostlyCancel, a few tenths of a second longer.
//
// Keys and groups are not copied, since Go strings are immutable. Programs that make keys from reused memory, as some
// HTTP servers do, must clone them first.
package coalesce

import (
	"cmp"
	"context"
	"errors"
	"sync"
	"time"

	"github.com/slidegate/slidegate/internal/answering"
	"github.com/slidegate/slidegate/internal/batches"
	"github.com/slidegate/slidegate/internal/layering"
	"github.com/slidegate/slidegate/internal/workload"
	"github.com/slidegate/slidegate/rule"
	"github.com/slidegate/slidegate/store"
)

// maxInFlight is the largest default of Options.InFlight.
const maxInFlight = 1024

// ErrFull is wrapped by the error of a request that finds the queue full, together with store.ErrBusy and store.ErrUndone:
// the request was not sent, so it is not charged.
var ErrFull = errors.New("coalesce: too many requests are waiting for the store")

// Options configures a Store. The zero value is valid, and suits a store across a network.
type Options struct {
	// InFlight is how many calls to the store may be under way at a time, including those that are sent alone, unless all of
	// them have been under way for long. More calls are smaller calls: a request waits less for its turn, and the store has more work. 1 makes the fewest
	// calls, and a request that just missed one waits for up to two round trips; one locked row then holds up all keys.
	//
	// 0 means Traits.Calls of the store, or 4 if that is not positive, chosen by BenchmarkRoundTrip: with 256 callers
	// and a store that works 10 microseconds on a call, 4 concurrent calls decide twice as many requests per second as 1
	// does, and 8 only a tenth more; where a call costs the store 50 microseconds, 8 decide fewer than 4.
	InFlight int
	// Gather makes fewer and larger calls out of bursts, which are usual in a server that reads requests from its
	// connections together. While shared calls have several callers, no request is sent alone: a call waits until the
	// goroutines that are ready to run have run, and includes the requests they made. In a program that does little
	// else, this takes microseconds. Where goroutines compute for long, it takes a turn of each of them, which can be
	// milliseconds: leave it off there.
	Gather bool
	// MaxBatch is how many requests are combined into one call. Those of limits of which the store keeps more than 200
	// units count as several, see package workload. The requests of a single Apply are never split, even if there are
	// more. 0 means 256.
	MaxBatch int
	// MaxQueue is how many requests may wait to be sent. Further requests fail immediately with an error that wraps
	// ErrFull, so that a store that has stopped does not fill the memory. An eighth of the queue is for callers with one request
	// each, so that a few callers with large batches do not fill it. A single batch larger than this may wait if the queue is
	// empty. 0 means 65,536.
	MaxQueue int
	// Timeout is how long a shared call may take: then its context ends, and callers that still wait for it get an
	// error that wraps context.DeadlineExceeded. A request that is sent alone has its caller's context instead and may
	// take longer, but others wait no longer than this for it. 0 means a second.
	Timeout time.Duration
}

func (o *Options) fill(traits store.Traits) {
	if o.InFlight == 0 {
		o.InFlight = min(traits.Calls, maxInFlight)
	}
	if o.InFlight <= 0 {
		o.InFlight = 4
	}
	o.MaxBatch, o.MaxQueue = cmp.Or(o.MaxBatch, 256), cmp.Or(o.MaxQueue, 1<<16)
	o.Timeout = cmp.Or(o.Timeout, time.Second)
}

// Store is a store.Store and SingleTaker that combines concurrent requests to another store. It is safe for concurrent
// use. The zero value is not usable; call New.
type Store struct {
	inner store.Store
	one   store.SingleTaker // inner, for single charges
	opts  Options
	alone bool // requests may be sent alone, with their callers' contexts

	entries sync.Pool // of *entry
	calls   sync.Pool // of *sharedCall

	// The fields below are guarded by mu. While any request is ready, opts.InFlight slots are taken, or one is taken by a call
	// that is about to take the requests that are ready: none is forgotten.
	mu         sync.Mutex
	flights    []*flight        // slots in use; beyond its length are those to be used again
	lines      map[uint64]*line // by address
	spare      []*line          // to be used again
	ready      [2]readyList     // waiting entries that can be sent: those that are not large, and those that are
	lastLarge  bool             // the last shared call was of large ones
	waiting    int              // requests in the queue, ready or not
	collecting int              // slots that are about to take what is ready
	crowded    bool             // with opts.Gather: the last shared call had several callers, so more are expected
	watchdog   watchdog
	workers    workers
}

// New returns a store that combines concurrent requests to inner.
func New(inner store.Store, opts Options) *Store {
	traits := inner.Traits()
	opts.fill(traits)
	s := &Store{inner: inner, opts: opts, alone: !traits.CostlyCancel, lines: map[uint64]*line{}}
	s.watchdog.init(opts.Timeout)
	s.one = store.Single(inner)
	// Each store has its own pools: channels made under testing/synctest must not leave their bubble.
	s.entries.New = func() any { return &entry{done: make(chan struct{}, 1)} }
	s.calls.New = func() any { return new(sharedCall) }
	return s
}

// Check returns the result of the inner store's Check.
func (s *Store) Check(limit *store.Limit) error { return s.inner.Check(limit) }

// Traits returns the traits of the inner store.
func (s *Store) Traits() store.Traits { return s.inner.Traits() }

// Unwrap returns the inner store.
func (s *Store) Unwrap() store.Store { return s.inner }

// Layer returns the layer's place among others.
func (s *Store) Layer() layering.Layer { return layering.Coalesce }

// Apply decides a batch of requests: in its own call if a slot is free, none of its addresses is in flight, no other
// requests are expected and the store does not have Traits.CostlyCancel, otherwise in a shared call.
func (s *Store) Apply(ctx context.Context, batch []store.Request) error {
	if len(batch) == 0 {
		return nil
	}
	var few [2 * fewAddresses]uint64
	heavy, _ := s.weigh(batch)
	if alone := s.begin(appendAddresses(few[:0], batch), heavy); alone != nil {
		return s.applyAlone(ctx, alone, batch)
	}
	e := s.entries.Get().(*entry)
	e.copyBatch(batch)
	alone, err := s.join(ctx, e)
	if alone != nil {
		s.recycle(e)
		return s.applyAlone(ctx, alone, batch)
	}
	if err == nil {
		err = s.await(ctx, e)
	}
	if err != nil {
		return batches.FailAll(batch, err)
	}
	err = e.copyAnswers(batch)
	s.recycle(e)
	return err
}

func (s *Store) applyAlone(ctx context.Context, f *flight, batch []store.Request) error {
	defer s.end(ctx, f) // also when inner panics
	return s.inner.Apply(ctx, batch)
}

// TakeSingle decides a request with a single charge, as Apply would.
func (s *Store) TakeSingle(ctx context.Context, limit *store.Limit, key string, cost int64) (
	allowed bool, flags rule.Flags, remaining int64, after, resetAfter, at rule.Micros, err error,
) {
	address := [1]uint64{limit.Hash("", key)}
	if alone := s.begin(address[:], workload.OfCharge(limit) > lightWork); alone != nil {
		return s.takeAlone(ctx, alone, limit, key, cost)
	}
	e := s.entries.Get().(*entry)
	e.copyOne(limit, key, cost)
	alone, err := s.join(ctx, e)
	if alone != nil {
		s.recycle(e)
		return s.takeAlone(ctx, alone, limit, key, cost)
	}
	if err == nil {
		err = s.await(ctx, e)
	}
	if err != nil {
		return false, 0, 0, 0, 0, 0, err
	}
	return s.singleAnswer(e)
}

func (s *Store) takeAlone(ctx context.Context, f *flight, limit *store.Limit, key string, cost int64) (
	allowed bool, flags rule.Flags, remaining int64, after, resetAfter, at rule.Micros, err error,
) {
	defer s.end(ctx, f) // also when inner panics
	return s.one.TakeSingle(ctx, limit, key, cost)
}

// singleAnswer returns the answer of e and recycles e.
func (s *Store) singleAnswer(e *entry) (
	allowed bool, flags rule.Flags, remaining int64, after, resetAfter, at rule.Micros, err error,
) {
	a, err := e.answers[0], e.requests[0].Err
	s.recycle(e)
	if err != nil {
		return false, 0, 0, 0, 0, 0, err
	}
	return a.Allowed, a.Flags, a.Remaining, answering.After(&a), a.ResetAfter, a.At, nil
}

// begin takes a slot for a call with these addresses if it may be sent alone, one is free, no other requests are expected
// and none of the addresses is held; otherwise it returns nil. The slot is freed by calling end.
func (s *Store) begin(addresses []uint64, heavy bool) (alone *flight) {
	if !s.alone {
		return nil
	}
	s.mu.Lock()
	if len(s.flights) < s.opts.InFlight && !s.crowded && s.mayWeigh(nil, heavy) && !s.isHeld(addresses) {
		alone = s.flyAlone(addresses, heavy)
	}
	s.mu.Unlock()
	return alone
}

// end frees the slot of a call that had the context ctx, which another call takes if requests are ready.
func (s *Store) end(ctx context.Context, f *flight) {
	s.mu.Lock()
	if !f.abandoned {
		s.collects(f)
		s.land(f, len(s.lines) > 0 && ctx.Err() != nil)
		s.freeSlot(f)
		s.startCalls()
	}
	s.mu.Unlock()
}
