// Package lease takes units of busy keys from a store in blocks, and spends them in process. A limit that ten servers share then
// costs each of them some twenty calls a second for each busy key, and a decision takes about as long as one in memory. It is a
// Store over a Store, and stands above the other layers that decide: failure, denycache and coalesce.
//
// What it promises. For windows that begin at multiples of their length (slidegate.AnchorClock), with any number of parts and any
// overlap, for fixed windows and for windows of the calendar, a request is admitted only if the rule itself, knowing all that was
// spent by all processes, would admit it at that moment. A block is spent only in the part of the window in which it was charged:
// within a part, what counts against the quota never grows by itself. For token buckets the same holds because a limit with Lease
// has a burst that is smaller by what refills in the life of a block, for all who use the limit.
//
// What changes. Answers that were given here carry rule.Leased: Remaining is then a lower bound, RetryAfter, NextAfter and
// ResetAfter are upper bounds, and At is when the block was charged. A key may be refused although units of it lie unspent in
// another process, until that gives them back: some 100 ms after its last spend.
//
// Only limits that say Lease are leased, and of those only keys that are asked for often. Everything else goes straight to the
// store.
//
// What it does not promise. If somebody else resets a key, a failover loses writes or the store's clock is set, what was out in
// blocks at that moment may be admitted once more. A virtual machine that is paused so that all of its clocks stand still may spend
// a block that has ended.
//
// docs/leases.md says when to use it, and what it costs.
package lease

import (
	"context"
	"errors"
	"fmt"
	"hash/maphash"
	"sync"
	"time"

	"github.com/slidegate/slidegate/rule"
	"github.com/slidegate/slidegate/store"
)

// Options are the choices of a Store. The zero value is good for a store that is a network away.
type Options struct {
	// MaxKeys is how many keys can have a block at once; others go straight to the store. 0 means 65,536, the most is 2^24.
	MaxKeys int
	// Timeout is how long a call for a block may take. 0 means a second.
	Timeout time.Duration
	// Now is the local clock, for tests: the time since any fixed moment. It must be safe for concurrent use and never go back.
	// nil means a clock that goes on while the machine is suspended.
	Now func() time.Duration
	// Spent is called for each spend, for tests: with the reading of Now that it was checked against.
	Spent func(Spend)
}

// Spend is what Options.Spent is told: units of a key that were admitted from a block.
type Spend struct {
	Limit *store.Limit
	Group string
	Key   string
	Units int64
	At    rule.Micros   // the store's time when the block was charged
	End   time.Duration // the end of the block, on the local clock
	Now   time.Duration // the reading of the local clock that was before End
}

const (
	mostKeys    = 1 << 24
	defaultKeys = 1 << 16
	mostTimeout = time.Minute
)

func (o Options) validate() (Options, error) {
	if o.MaxKeys < 0 || o.MaxKeys > mostKeys {
		return o, fmt.Errorf("lease: MaxKeys: must be 1 to %d, or 0 for the default, not %d", mostKeys, o.MaxKeys)
	}
	if o.Timeout < 0 || o.Timeout > mostTimeout {
		return o, fmt.Errorf("lease: Timeout: must be above 0 and at most %v, or 0 for the default, not %v", mostTimeout, o.Timeout)
	}
	if o.MaxKeys == 0 {
		o.MaxKeys = defaultKeys
	}
	if o.Timeout == 0 {
		o.Timeout = time.Second
	}
	return o, nil
}

// Store is a store.Store and SingleTaker that takes units of another one in blocks. It is safe for concurrent use. The zero
// value is not usable; New makes it. Its goroutines live only while there are blocks; Close gives those back.
type Store struct {
	inner store.Store
	one   store.SingleTaker // inner, for single charges
	opts  Options
	clock clock
	seed  maphash.Seed
	table table
	heat  heat
	trips trips
	keeper
	work    sync.Pool // of *job
	waiters sync.Pool // of *waiter
	counts  counts
}

// New returns a store that takes units of inner in blocks.
func New(inner store.Store, opts Options) (*Store, error) {
	if inner == nil {
		return nil, errors.New("lease: inner: must not be nil; give the store that decides")
	}
	opts, err := opts.validate()
	if err != nil {
		return nil, err
	}
	s := &Store{inner: inner, one: store.Single(inner), opts: opts, seed: maphash.MakeSeed(), table: newTable(opts.MaxKeys), heat: newHeat()}
	s.clock.setUp(opts.Now)
	s.work.New = func() any { return new(job) }
	s.waiters.New = func() any { return &waiter{got: make(chan *block, 1)} }
	return s, nil
}

// Check asks the store underneath.
func (s *Store) Check(limit *store.Limit) error { return s.inner.Check(limit) }

// Traits are those of the store underneath.
func (s *Store) Traits() store.Traits { return s.inner.Traits() }

// Unwrap returns the store below.
func (s *Store) Unwrap() store.Store { return s.inner }

// Leases marks the layer that limits with Lease need; see store.Leaser.
func (s *Store) Leases() {}

// Close gives back what is out, and waits until that is done or ctx ends. From then on requests go straight to the store
// underneath, which stays open.
func (s *Store) Close(ctx context.Context) error { return s.closeAll(ctx) }
