// Package coalesce puts requests that come at the same time together into one call to a store, so that a store with round
// trips answers hundreds of callers in a few of them, and those who wait for one hot key are decided in one go. It is a
// Store over a Store and changes no answer: each request is decided exactly once, as it would be alone.
//
// A request that comes while fewer than Options.InFlight calls are under way is sent at once: on the caller's own
// goroutine, with the caller's own context and memory, without a timer or an allocation. Later ones wait in a queue, and
// when a call returns, those who wait are sent together, in the order in which they came, in a shared call. Options.Gather
// also puts those together who come in a burst.
//
// What it promises besides:
//
//   - What a caller hands over in one Apply stays in one call, in its order. All operations can share a call, and an error
//     of one request goes to its own caller alone.
//   - A shared call is not ended by one caller's context. It has a context of its own, without values, which ends after
//     Options.Timeout, or when all of its callers have left.
//   - A caller whose context ends returns at once. If its requests were still in the queue, they are taken out and surely
//     not charged, which the error says; if they were sent, they may be charged, as with any error of a store.
//   - A store that panics in a shared call ends no process and leaves nobody waiting: the caller who waited longest
//     panics with a *Panic, the others get an error. If all have left, the panic is lost.
//   - A call that does not return in time keeps nobody from being sent: once those who wait have seen nothing move for
//     Options.Timeout, or twice that at most, the calls under way no longer count towards Options.InFlight.
//
// What it does not promise: an order between callers who ask at the same time. Who asks after another was answered is
// decided after it. Nor does it bound how long a store may take that does not heed its context: such a call holds a
// goroutine until it returns. There is nothing to close: goroutines live only as long as shared calls do.
//
// Keys and groups are not copied, for Go's strings do not change. Whoever makes keys of memory that is used again, as some
// HTTP servers do, has to clone them first.
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

// mostInFlight is the most that Options.InFlight accepts.
const mostInFlight = 1024

// ErrFull is wrapped by the error of a request for which there is no place among those that wait. It was not sent, so it
// is surely not charged.
var ErrFull = errors.New("coalesce: too many requests are waiting for the store")

// Options are the choices of a Store. The zero value is good for a store that is a network away.
type Options struct {
	// InFlight is how many calls to the store are under way at once, those that are sent alone included. More calls mean
	// smaller ones: a request then waits less for its turn, and the store has more to do. With 1 there are the fewest
	// calls, and whoever just missed one waits for up to two round trips.
	//
	// 0 means 4. BenchmarkRoundTrip chose it: with 256 callers and a store that works 10 microseconds on a call, 4 calls at
	// a time decide twice as many requests a second as 1 does, and 8 only a tenth more; where a call costs the store 50
	// microseconds, 8 decide fewer than 4. At most 1,024.
	InFlight int
	// Gather makes fewer and larger calls of requests that come in bursts, as they do to a server, which reads them from its
	// connections together. While shared calls have several callers, none is sent alone: a call waits until the goroutines that
	// are ready to run have run, and takes along who came. In a program that does little but ask, this takes microseconds. Where
	// goroutines compute for long, it takes a turn of each of them, which can be milliseconds: leave it off there.
	Gather bool
	// MaxBatch is how many requests are put together into one call. What a single caller hands over in one Apply is not
	// cut, even if it is more. 0 means 256.
	MaxBatch int
	// MaxQueue is how many requests may wait to be sent. Beyond it they fail at once with an error that wraps ErrFull,
	// so that a store which has stopped does not fill the memory. A batch that is larger than this by itself may wait
	// when nobody else does. 0 means 65,536.
	MaxQueue int
	// Timeout is how long a shared call may take: then its context ends, and those who still wait for it get an error that
	// is a context.DeadlineExceeded. A request that is sent alone has its caller's context instead and may take longer,
	// but after this time others no longer wait for it. 0 means a second.
	Timeout time.Duration
}

func (o Options) validate() (Options, error) {
	if o.InFlight < 0 || o.InFlight > mostInFlight {
		return o, fmt.Errorf("coalesce: InFlight: must be 1 to %d, or 0 for the default, not %d", mostInFlight, o.InFlight)
	}
	if o.MaxBatch < 0 {
		return o, fmt.Errorf("coalesce: MaxBatch: must be at least 1, or 0 for the default, not %d", o.MaxBatch)
	}
	if o.MaxQueue < 0 {
		return o, fmt.Errorf("coalesce: MaxQueue: must be at least 1, or 0 for the default, not %d", o.MaxQueue)
	}
	if o.Timeout < 0 {
		return o, fmt.Errorf("coalesce: Timeout: must be above 0, or 0 for the default, not %v", o.Timeout)
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

// Store is a store.Store and SingleTaker that sends concurrent requests to another one together. It is safe for
// concurrent use. The zero value is not usable; New makes it.
type Store struct {
	inner store.Store
	one   store.SingleTaker // inner, for single charges
	opts  Options

	entries sync.Pool // of *entry
	calls   sync.Pool // of *sharedCall

	// All below is guarded by mu. While anybody waits, all slots are taken, or one is by a call that is about to take along
	// who waits: nobody is forgotten, and nobody overtakes those in the queue unless it is full.
	mu       sync.Mutex
	taken    int    // slots, of opts.InFlight: each is a call under way, or about to be
	crowded  bool   // with opts.Gather: the last shared call had several callers, so more are to be expected
	age      uint64 // goes up when the calls under way are given up: their slots are then not theirs any more
	queue    queue
	watchdog watchdog
}

// New returns a store that puts concurrent requests to inner together.
func New(inner store.Store, opts Options) (*Store, error) {
	if inner == nil {
		return nil, errors.New("coalesce: inner: must not be nil; give the store that decides")
	}
	opts, err := opts.validate()
	if err != nil {
		return nil, err
	}
	s := &Store{inner: inner, opts: opts}
	s.one = store.Single(inner)
	// The pools are the store's own: channels that were made under testing/synctest must not get out of it.
	s.entries.New = func() any { return &entry{done: make(chan struct{}, 1)} }
	s.calls.New = func() any { return new(sharedCall) }
	return s, nil
}

// Check asks the store underneath.
func (s *Store) Check(limit *store.Limit) error { return s.inner.Check(limit) }

// Traits are those of the store underneath.
func (s *Store) Traits() store.Traits { return s.inner.Traits() }

// Unwrap returns the store below.
func (s *Store) Unwrap() store.Store { return s.inner }

// Apply decides a batch of requests: in a call of its own if a slot is free and no others are to be expected, else in a shared
// one.
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
	err = e.answerBatch(batch)
	s.recycle(e)
	return err
}

func (s *Store) applyAlone(ctx context.Context, age uint64, batch []store.Request) error {
	defer s.end(age) // also when inner panics
	return s.inner.Apply(ctx, batch)
}

// TakeSingle decides a request of a single charge, as Apply would.
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
	return s.answerOne(e)
}

func (s *Store) takeAlone(ctx context.Context, age uint64, limit *store.Limit, key string, cost int64) (
	allowed bool, flags rule.Flags, remaining int64, after, resetAfter, at rule.Micros, err error,
) {
	defer s.end(age) // also when inner panics
	return s.one.TakeSingle(ctx, limit, key, cost)
}

// answerOne returns what e was answered, and gives its memory back.
func (s *Store) answerOne(e *entry) (
	allowed bool, flags rule.Flags, remaining int64, after, resetAfter, at rule.Micros, err error,
) {
	a, err := e.answers[0], e.requests[0].Err
	s.recycle(e)
	if err != nil {
		return false, 0, 0, 0, 0, 0, err
	}
	return a.Allowed, a.Flags, a.Remaining, a.After(), a.ResetAfter, a.At, nil
}

// begin takes a slot if one is free and no others are to be expected. Whoever has it gives it back with end, and the age that
// it was taken at.
func (s *Store) begin() (age uint64, alone bool) {
	s.mu.Lock()
	age, alone = s.age, s.taken < s.opts.InFlight && !s.crowded
	if alone {
		s.taken++
	}
	s.mu.Unlock()
	return age, alone
}

// end gives a slot back: to those who wait, if there are any.
func (s *Store) end(age uint64) {
	s.mu.Lock()
	if age == s.age {
		s.watchdog.moved = true
		if s.queue.first == nil {
			s.taken--
		} else {
			go s.carry(age)
		}
	}
	s.mu.Unlock()
}
