// Package coalesce combines concurrent requests into shared calls to a store, so that a store with round trips serves
// hundreds of callers in a few of them, and all waiters on one hot key are decided together. It is a Store that wraps a
// Store and does not change decisions: each request is decided exactly once, as it would be alone.
//
// A request that arrives while fewer than Options.InFlight calls are under way is sent immediately: on the caller's
// goroutine, with the caller's context and memory, without a timer or an allocation. Later requests wait in a queue.
// When a call returns, the waiting requests are sent together, in order of arrival, in a shared call. Options.Gather
// also combines requests that arrive in a burst.
//
// It also promises:
//
//   - The requests of one Apply stay in one call, in their order. All operations can share a call, and an error of one
//     request is returned only to its own caller.
//   - One caller's context does not end a shared call. A shared call has its own context, without values, which ends
//     after Options.Timeout, or when all of its callers have left.
//   - A caller whose context ends returns immediately. If its requests were still in the queue, they are removed and
//     are not charged, and the error says so; if they were sent, they may be charged, as with any error of a store.
//   - A store that panics in a shared call does not end the process and leaves no caller waiting: the caller that
//     waited longest panics with a *Panic, the others get an error. If all callers have left, the panic is lost.
//   - A call that does not return in time does not block others: once the waiting requests have seen no progress for
//     Options.Timeout, or at most twice that, the calls under way no longer count towards Options.InFlight.
//
// It does not promise an order between concurrent callers; a request made after another was answered is decided after
// it. Nor does it bound the time that a store takes if the store ignores its context: such a call holds a goroutine
// until it returns. There is nothing to close: goroutines live only as long as shared calls do.
//
// Keys and groups are not copied, since Go strings are immutable. Programs that make keys from reused memory, as some
// HTTP servers do, must clone them first.
package coalesce

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/slidegate/slidegate/rule"
	"github.com/slidegate/slidegate/store"
)

// maxInFlight is the largest value of Options.InFlight.
const maxInFlight = 1024

// ErrFull is wrapped by the error of a request that finds the queue full. The request was not sent, so it is not
// charged.
var ErrFull = errors.New("coalesce: too many requests are waiting for the store")

// Options configures a Store. The zero value is valid, and suits a store across a network.
type Options struct {
	// InFlight is how many calls to the store may be under way at a time, including those that are sent alone. More
	// calls are smaller calls: a request waits less for its turn, and the store has more work. 1 makes the fewest
	// calls, and a request that just missed one waits for up to two round trips.
	//
	// 0 means 4, chosen by BenchmarkRoundTrip: with 256 callers and a store that works 10 microseconds on a call, 4
	// concurrent calls decide twice as many requests per second as 1 does, and 8 only a tenth more; where a call costs
	// the store 50 microseconds, 8 decide fewer than 4. The maximum is 1,024.
	InFlight int
	// Gather makes fewer and larger calls out of bursts, which are usual in a server that reads requests from its
	// connections together. While shared calls have several callers, no request is sent alone: a call waits until the
	// goroutines that are ready to run have run, and includes the requests they made. In a program that does little
	// else, this takes microseconds. Where goroutines compute for long, it takes a turn of each of them, which can be
	// milliseconds: leave it off there.
	Gather bool
	// MaxBatch is how many requests are combined into one call. The requests of a single Apply are never split, even if
	// there are more. 0 means 256.
	MaxBatch int
	// MaxQueue is how many requests may wait to be sent. Further requests fail immediately with an error that wraps
	// ErrFull, so that a store that has stopped does not fill the memory. A single batch larger than this may wait if
	// the queue is empty. 0 means 65,536.
	MaxQueue int
	// Timeout is how long a shared call may take: then its context ends, and callers that still wait for it get an
	// error that wraps context.DeadlineExceeded. A request that is sent alone has its caller's context instead and may
	// take longer, but after this time others no longer wait for it. 0 means a second.
	Timeout time.Duration
}

func (o Options) validate() (Options, error) {
	if o.InFlight < 0 || o.InFlight > maxInFlight {
		return o, fmt.Errorf("coalesce: InFlight: must be 1 to %d, or 0 for the default, not %d", maxInFlight, o.InFlight)
	}
	if o.MaxBatch < 0 {
		return o, fmt.Errorf("coalesce: MaxBatch: must be at least 1, or 0 for the default, not %d", o.MaxBatch)
	}
	if o.MaxQueue < 0 {
		return o, fmt.Errorf("coalesce: MaxQueue: must be at least 1, or 0 for the default, not %d", o.MaxQueue)
	}
	if o.Timeout < 0 {
		return o, fmt.Errorf("coalesce: Timeout: must be positive, or 0 for the default, not %v", o.Timeout)
	}
	if o.InFlight == 0 {
		o.InFlight = 4
	}
	if o.MaxBatch == 0 {
		o.MaxBatch = 256
	}
	if o.MaxQueue == 0 {
		o.MaxQueue = 1 << 16
	}
	if o.Timeout == 0 {
		o.Timeout = time.Second
	}
	return o, nil
}

// Store is a store.Store and SingleTaker that combines concurrent requests to another store. It is safe for concurrent
// use. The zero value is not usable; call New.
type Store struct {
	inner store.Store
	one   store.SingleTaker // inner, for single charges
	opts  Options

	entries sync.Pool // of *entry
	calls   sync.Pool // of *sharedCall

	// The fields below are guarded by mu. While any request waits, all slots are taken, or one is taken by a call that
	// is about to collect the waiting requests: no request is forgotten, and none overtakes the queue unless the queue
	// is full.
	mu       sync.Mutex
	taken    int    // slots in use, of opts.InFlight: each is a call under way, or about to be made
	crowded  bool   // with opts.Gather: the last shared call had several callers, so more are expected
	age      uint64 // incremented when the calls under way are abandoned: they no longer own their slots
	queue    queue
	watchdog watchdog
}

// New returns a store that combines concurrent requests to inner.
func New(inner store.Store, opts Options) (*Store, error) {
	if inner == nil {
		return nil, errors.New("coalesce: inner: must not be nil; pass the store that decides")
	}
	opts, err := opts.validate()
	if err != nil {
		return nil, err
	}
	s := &Store{inner: inner, opts: opts}
	s.one = store.Single(inner)
	// Each store has its own pools: channels made under testing/synctest must not leave their bubble.
	s.entries.New = func() any { return &entry{done: make(chan struct{}, 1)} }
	s.calls.New = func() any { return new(sharedCall) }
	return s, nil
}

// Check returns the result of the inner store's Check.
func (s *Store) Check(limit *store.Limit) error { return s.inner.Check(limit) }

// Traits returns the traits of the inner store.
func (s *Store) Traits() store.Traits { return s.inner.Traits() }

// Unwrap returns the inner store.
func (s *Store) Unwrap() store.Store { return s.inner }

// Apply decides a batch of requests: in its own call if a slot is free and no other requests are expected, otherwise in
// a shared call.
func (s *Store) Apply(ctx context.Context, batch []store.Request) error {
	if len(batch) == 0 {
		return nil
	}
	if age, alone := s.begin(); alone {
		return s.applyAlone(ctx, age, batch)
	}
	e := s.entries.Get().(*entry)
	e.copyBatch(batch)
	age, alone, err := s.join(ctx, e)
	if alone {
		s.recycle(e)
		return s.applyAlone(ctx, age, batch)
	}
	if err == nil {
		err = s.await(ctx, e)
	}
	if err != nil {
		for i := range batch {
			batch[i].Err = err
		}
		return err
	}
	err = e.copyAnswers(batch)
	s.recycle(e)
	return err
}

func (s *Store) applyAlone(ctx context.Context, age uint64, batch []store.Request) error {
	defer s.end(age) // also when inner panics
	return s.inner.Apply(ctx, batch)
}

// TakeSingle decides a request with a single charge, as Apply would.
func (s *Store) TakeSingle(ctx context.Context, limit *store.Limit, key string, cost int64) (
	allowed bool, flags rule.Flags, remaining int64, after, resetAfter, at rule.Micros, err error,
) {
	if age, alone := s.begin(); alone {
		return s.takeAlone(ctx, age, limit, key, cost)
	}
	e := s.entries.Get().(*entry)
	e.copyOne(limit, key, cost)
	age, alone, err := s.join(ctx, e)
	if alone {
		s.recycle(e)
		return s.takeAlone(ctx, age, limit, key, cost)
	}
	if err == nil {
		err = s.await(ctx, e)
	}
	if err != nil {
		return false, 0, 0, 0, 0, 0, err
	}
	return s.singleAnswer(e)
}

func (s *Store) takeAlone(ctx context.Context, age uint64, limit *store.Limit, key string, cost int64) (
	allowed bool, flags rule.Flags, remaining int64, after, resetAfter, at rule.Micros, err error,
) {
	defer s.end(age) // also when inner panics
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
	return a.Allowed, a.Flags, a.Remaining, a.After(), a.ResetAfter, a.At, nil
}

// begin takes a slot if one is free and no other requests are expected. The slot is returned by calling end with the
// same age.
func (s *Store) begin() (age uint64, alone bool) {
	s.mu.Lock()
	age, alone = s.age, s.taken < s.opts.InFlight && !s.crowded
	if alone {
		s.taken++
	}
	s.mu.Unlock()
	return age, alone
}

// end frees a slot, or passes it on if requests are waiting.
func (s *Store) end(age uint64) {
	s.mu.Lock()
	if age == s.age {
		s.watchdog.moved = true
		if s.queue.first == nil {
			s.taken--
		} else {
			go s.runCalls(age)
		}
	}
	s.mu.Unlock()
}
