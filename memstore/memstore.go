// Package memstore keeps the state of limits in the memory of the process: no server, no allocation per decision, a
// bounded number of keys, and nothing per key for the garbage collector to look at, except in sliding logs and in-flight
// limits. It is the store to begin with, and the one that others fall back to.
package memstore

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/slidegate/slidegate/rule"
	"github.com/slidegate/slidegate/store"
)

// Options are the choices of a Store. The zero value is a store of about a million keys.
type Options struct {
	// MaxKeys is about how many keys are held at once, a key counted once for each limit it faces. 0 means 1,048,576;
	// the most is 2^30.
	//
	// Memory grows with the keys that are there, from 16 KB up to 40 bytes times MaxKeys for sliding windows of one segment
	// and for fixed windows, 80 where their counts are too large to be packed, 60 for windows of the calendar, 100 for token
	// buckets, 20 times (segments + 3) for windows of more segments, for sliding logs 60 and 4 to 8 for each unit in use, and
	// for in-flight limits 80 and 16 to 64 for each slot that is held.
	//
	// MaxKeys is also how many settlements of reservations are remembered at once, at least 4,096; each takes 100 to 150 bytes,
	// and 8 more for each limit. One is remembered for one to two times as long as the units of its limits count. When they are
	// that many, another one changes nothing, and its answer says Unsettled.
	//
	// When all places for a new key are held by live ones, it takes the place of the least-used one and begins with the
	// counts of what was forgotten, so a flood of new keys can only ever cause refusals, and the answer says Inherited.
	MaxKeys int
	// RefuseWhenFull makes a decision about a new key an error, ErrFull, instead.
	RefuseWhenFull bool
	// MaxShapes is how many different shapes of limits (algorithm, window, segments, anchor, calendar, zone) there may be; each
	// takes at least 16 KB. A shape without a live key makes room for another. Those of limits that were given to Prepare do not
	// count, nor do those of a snapshot before they are asked for. 0 means 256; the most is 65,536.
	MaxShapes int
	// Now is the clock, in microseconds since the Unix epoch, for replaying recorded traffic and for tests. It must be safe
	// for concurrent use. nil means the monotonic clock, set by the wall clock when the store is made.
	Now func() rule.Micros
}

// The most that Options accept.
const (
	mostKeys   = 1 << 30
	mostShapes = 1 << 16
)

// MaxCharges is how many limits one request may face at once.
const MaxCharges = 64

// Errors of a Store.
var (
	// ErrFull is returned for a new key when Options.RefuseWhenFull is set and there is no place for it.
	ErrFull = errors.New("memstore: full of live keys")
	// ErrShapes is returned for a limit of a new shape when there are Options.MaxShapes with live keys already.
	ErrShapes = errors.New("memstore: too many shapes of limits")
)

// Store is a store.Store in memory. It is safe for concurrent use. The zero value is not usable; New makes it.
//
// Keys are not stored, only a hash of 64 bits, made under a random key of 128 bits: among a million live keys, the chance
// that any two of them share their counts is about 1 in 18 million, and nobody who does not know the random key can
// choose keys that do. Apply and TakeSingle never block for long, and look at
// their context only before they decide.
type Store struct {
	store.Registry // of the limits that limiters have over this store

	opts     Options
	key      hashKey
	wallBase rule.Micros
	base     time.Time

	plans   [1024]atomic.Pointer[plan] // by the limit's ID; a miss is worked out again
	mu      sync.Mutex                 // guards tables and their use; taken before any table's lock
	tables  map[rule.Shape]*table
	counted int       // tables that count towards MaxShapes
	work    sync.Pool // of *job

	settlements *settlements

	slots     atomic.Int64 // allocated, in all tables
	evictions atomic.Int64 // live keys that lost their place to new ones
}

// New returns an empty store.
func New(opts Options) (*Store, error) {
	s, err := newStore(opts)
	if err == nil {
		rand.Read(s.key[:]) //nolint:errcheck // it never fails: see crypto/rand
	}
	return s, err
}

// NewDefault returns an empty store with the default Options, which cannot fail. Every call returns a new store.
func NewDefault() *Store {
	s, err := New(Options{})
	if err != nil {
		panic(err) // the defaults are in range
	}
	return s
}

func newStore(opts Options) (*Store, error) {
	if opts.MaxKeys == 0 {
		opts.MaxKeys = 1 << 20
	}
	if opts.MaxShapes == 0 {
		opts.MaxShapes = 256
	}
	if opts.MaxKeys < 0 || opts.MaxKeys > mostKeys {
		return nil, fmt.Errorf("memstore: MaxKeys: must be 1 to %d, or 0 for the default, not %d", mostKeys, opts.MaxKeys)
	}
	if opts.MaxShapes < 0 || opts.MaxShapes > mostShapes {
		return nil, fmt.Errorf("memstore: MaxShapes: must be 1 to %d, or 0 for the default, not %d", mostShapes, opts.MaxShapes)
	}
	base := time.Now()
	s := &Store{
		opts: opts, wallBase: rule.Micros(base.UnixMicro()), base: base,
		tables: map[rule.Shape]*table{}, settlements: newSettlements(opts.MaxKeys),
	}
	s.work.New = func() any { return new(job) }
	return s, nil
}

// now reads the clock. Only the monotonic one: it is half the price of the wall clock, and cannot be set back.
func (s *Store) now() rule.Micros {
	if s.opts.Now != nil {
		return min(max(0, s.opts.Now()), rule.MaxNow)
	}
	return s.sinceBase(time.Since(s.base))
}

// sinceBase is the moment d after the store was made.
func (s *Store) sinceBase(d time.Duration) rule.Micros {
	return s.wallBase + rule.Micros(d.Microseconds())
}

// Traits tells what the store can do.
func (s *Store) Traits() store.Traits {
	return store.Traits{Name: "memory", MaxCharges: MaxCharges}
}

// Check accepts every limit.
func (s *Store) Check(*store.Limit) error { return nil }

// Apply decides a batch of requests.
func (s *Store) Apply(ctx context.Context, batch []store.Request) error {
	var first error
	for i := range batch {
		r := &batch[i]
		r.Err = s.apply(ctx, r)
		if r.Err != nil && first == nil {
			first = r.Err
		}
	}
	return first
}

func (s *Store) apply(ctx context.Context, r *store.Request) error {
	if len(r.Charges) == 0 || len(r.Charges) > MaxCharges || len(r.Answers) < len(r.Charges) {
		return fmt.Errorf("memstore: %w: a request has 1 to %d charges and an answer for each, not %d and %d",
			store.ErrUnsupported, MaxCharges, len(r.Charges), len(r.Answers))
	}
	if len(r.Charges) > 1 || r.Op != rule.Take || r.Group != "" || r.Charges[0].Limit.Rule().Algorithm == rule.InFlight {
		if err := ctx.Err(); err != nil {
			return ended(err)
		}
		return s.applyLocked(r)
	}
	c, a := &r.Charges[0], &r.Answers[0]
	allowed, flags, remaining, after, resetAfter, at, err := s.TakeSingle(ctx, c.Limit, c.Key, c.Cost)
	a.Allowed, a.Flags, a.Remaining, a.ResetAfter, a.At = allowed, flags, remaining, resetAfter, at
	if allowed {
		a.Granted, a.RetryAfter, a.NextAfter = c.Cost, 0, after
	} else {
		a.Granted, a.RetryAfter, a.NextAfter = 0, after, 0
	}
	return err
}

// ended is the error of a request whose context had ended before it came.
func ended(err error) error { return fmt.Errorf("memstore: %w", err) }

// plan is what the store works out once about a limit.
type plan struct {
	bound *store.Limit
	limit *rule.Limit
	table *table
	// The hash of what comes before group and key in an address, and what it makes of short keys without a group.
	prefix hasher
	short  schedule
}

func (s *Store) planOf(bound *store.Limit) (*plan, error) {
	if p := s.plans[bound.ID()%uint64(len(s.plans))].Load(); p != nil && p.bound == bound {
		return p, nil
	}
	return s.newPlan(bound)
}

func (s *Store) newPlan(bound *store.Limit) (*plan, error) {
	limit := bound.Rule()
	t, err := s.tableOf(limit.Shape())
	if err != nil {
		return nil, err
	}
	p := &plan{bound: bound, limit: limit, table: t, prefix: newHasher(s.key).field(bound.Prefix())}
	p.short = newSchedule(p.prefix)
	s.plans[bound.ID()%uint64(len(s.plans))].Store(p)
	return p, nil
}

// hash returns the hash of an address, which is none of the reserved ones.
func (p *plan) hash(group, key string) uint64 {
	if group == "" && len(key) <= shortKey {
		return p.hashShort(key)
	}
	return max(p.prefix.field(group).sum(key), reserved)
}

// hashShort is hash for short keys without a group.
func (p *plan) hashShort(key string) uint64 { return max(p.short.sum(key), reserved) }
