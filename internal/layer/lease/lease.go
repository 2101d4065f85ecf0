// Package lease charges units of busy keys to a store in advance, many at a time, and spends them in process. Such a
// lease makes a limit that ten servers share cost each of them some twenty calls per second and busy key, and a
// decision takes about as long as one in memory. It is a Store that wraps a Store, and goes above the other layers that
// decide: failure, refusals and coalesce.
//
// What it promises: for windows that begin at multiples of their length (rule.AnchorClock), with any number of
// parts and any overlap, for fixed windows and for calendar windows, a request is admitted only if the rule itself,
// knowing everything that all processes have spent, would admit it at that time. A lease is spent only in the part of
// the window in which it was charged: within a part, what counts against the quota never grows on its own. For token
// buckets the same holds because a limit with Lease has a burst that is smaller by what refills during the life of a
// lease, for every user of the limit.
//
// What changes: answers made here carry rule.Leased. Remaining is then a lower bound, RetryAfter, NextAfter and
// ResetAfter are upper bounds, and At is when the lease was charged. A key may be refused although another process holds
// unspent units of it, until that process returns them: some 100 ms after its last spend.
//
// Only limits with Lease are leased, and of those only keys that are requested often. Everything else goes straight to
// the store, and so do calls that count once.
//
// What it does not promise: if another process resets a key, a failover loses writes or the store's clock is set, the
// units leased at that time may be admitted once more. A virtual machine that is paused so that all of its clocks stand
// still may spend a lease that has ended.
//
// See docs/leases.md for when to use it and what it costs.
package lease

import (
	"cmp"
	"context"
	"sync"
	"time"

	"github.com/slidegate/slidegate/internal/layering"
	"github.com/slidegate/slidegate/rule"
	"github.com/slidegate/slidegate/store"
)

// Options configures a Store. The zero value is valid, and suits a store across a network.
type Options struct {
	// MaxKeys is how many keys can have a lease at a time; others go straight to the store. 0 means 65,536.
	MaxKeys int
	// Timeout is how long a call for a lease may take. 0 means a second.
	Timeout time.Duration
	// Now is the local clock, for tests: the time since any fixed instant. It must be safe for concurrent use and must
	// not go backwards. nil means a clock that continues while the machine is suspended.
	Now func() time.Duration
	// Spent is called for each spend, for tests, with the reading of Now that the spend was checked against.
	Spent func(Spend)
}

// Spend describes units of a key that were admitted from a lease, for Options.Spent.
type Spend struct {
	Limit *store.Limit
	Group string
	Key   string
	Units int64
	At    rule.Micros   // the store's time when the lease was charged
	End   time.Duration // the end of the lease, by the local clock
	Now   time.Duration // the reading of the local clock, which was before End
}

// Store is a store.Store and SingleTaker that leases units of another store. It is safe for concurrent use. The zero
// value is not usable; call New. Its goroutines run only while there are leases; Close returns those.
type Store struct {
	inner     store.Store
	one       store.SingleTaker // inner, for single charges
	opts      Options
	clock     clock
	table     table
	heat      heat
	transfers transfers
	keeper
	work    sync.Pool // of *job
	waiters sync.Pool // of *waiter
	counts  counts
}

// New returns a store that leases units of inner, which must be a store with round trips: limits with Lease work over a
// store in the same process as they are.
func New(inner store.Store, opts Options) *Store {
	opts.MaxKeys, opts.Timeout = cmp.Or(opts.MaxKeys, 1<<16), cmp.Or(opts.Timeout, time.Second)
	s := &Store{inner: inner, one: store.Single(inner), opts: opts, table: newTable(opts.MaxKeys), heat: newHeat()}
	s.clock.setUp(opts.Now)
	s.work.New = func() any { return new(job) }
	s.waiters.New = func() any { return &waiter{got: make(chan *lease, 1)} }
	return s
}

// Check returns the result of the inner store's Check.
func (s *Store) Check(limit *store.Limit) error { return s.inner.Check(limit) }

// Traits returns the traits of the inner store.
func (s *Store) Traits() store.Traits { return s.inner.Traits() }

// Unwrap returns the inner store.
func (s *Store) Unwrap() store.Store { return s.inner }

// Layer returns the layer's place among others.
func (s *Store) Layer() layering.Layer { return layering.Lease }

// Close returns all unspent units to the store, and waits until that is done or ctx ends. From then on requests go
// straight to the inner store, which stays open. No goroutine of the layer is left, except for calls to the store that
// have not returned when ctx ends.
func (s *Store) Close(ctx context.Context) error { return s.closeAll(ctx) }
