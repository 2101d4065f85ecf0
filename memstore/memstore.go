// Package memstore keeps the state of limits in the memory of the process: no server, no allocation per decision, a
// bounded amount of it, and nothing per key for the garbage collector to look at. It is the store to begin with, and the one
// that others fall back to.
package memstore

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"

	"github.com/slidegate/slidegate/rule"
	"github.com/slidegate/slidegate/store"
)

// Options are the choices of a Store. The zero value is a store of up to 256 MiB.
type Options struct {
	// MaxBytes is how much memory the store takes at most. 0 means 256 MiB; the least is 256 KiB, the most 1 TiB. It is taken as
	// keys come, from 16 KB a limit on. Garbage collection may double it, as it does all memory of a Go program; debug.SetMemoryLimit
	// bounds that.
	//
	// Half of it is for keys. A key takes 21 to 28 bytes for each limit it faces if that is a sliding window of one segment or a
	// fixed window, twice that where its counts are too large to be packed or its windows do not begin at multiples of their length,
	// 87 to 120 for a token bucket and for up to 15 segments, 270 for 60 segments, and for a sliding log or an in-flight limit 87 to 120 and
	// 4 to 7 for each unit beyond the eleventh (6 if the window is longer than 71 minutes), 21 for each slot beyond the second.
	// So 256 MiB hold 5 million keys of windows and a million of sliding logs.
	//
	// When there is no room for a new key, it takes the place of the least-used one near it, and what was forgotten is
	// remembered by key, in less: about 5 bytes a key, in up to three eighths of MaxBytes. A key that was forgotten, and in rare
	// cases one that looks like it, begins with at least what it had used, and the answer says Inherited. So a flood of new keys can
	// cause refusals, and never admissions. Limits share the room equally if they need it.
	//
	// An eighth is for settlements of reservations, at 128 bytes each. One is remembered for one to two times as long as the
	// units of its limits count. When there is no room, another one changes nothing, and its answer says Unsettled.
	MaxBytes int64
	// RefuseWhenFull makes a decision about a new key an error, ErrFull, instead of forgetting another one. One limit then has
	// at most seven eighths of the room that others have left.
	RefuseWhenFull bool
	// MaxLimits is how many different limits (namespace, name, algorithm, window, segments, anchor, calendar, zone) there may be. One
	// without a live key makes room for another. Those that were given to Prepare do not count, nor do those of a snapshot before
	// they are asked for. 0 means 4,096; the most is 1,048,576.
	MaxLimits int
	// Now is the clock, in microseconds since the Unix epoch, for replaying recorded traffic and for tests. It must be safe
	// for concurrent use. nil means the monotonic clock, set by the wall clock when the store is made.
	Now func() rule.Micros
}

// The bounds of Options.
const (
	defaultBytes  = 256 << 20
	leastBytes    = 256 << 10
	mostBytes     = 1 << 40
	defaultLimits = 1 << 12
	mostLimits    = 1 << 20
)

// MaxCharges is how many limits one request may face at once.
const MaxCharges = 64

// Errors of a Store.
var (
	// ErrFull is returned for a new key when Options.RefuseWhenFull is set and there is no place for it.
	ErrFull = errors.New("memstore: full of live keys")
	// ErrLimits is returned for a new limit when there are Options.MaxLimits with live keys already.
	ErrLimits = errors.New("memstore: too many limits")
)

// Store is a store.Store in memory. It is safe for concurrent use. The zero value is not usable; New makes it.
//
// Keys are not stored, only a hash of 64 bits, made under a random key of 128 bits: among a million live keys, the chance
// that any two of them share their counts is about 1 in 18 million, and nobody who does not know the random key can
// choose keys that do. Apply and TakeSingle never block for long, and look at
// their context only before they decide.
type Store struct {
	store.Registry // of the limits that limiters have over this store

	opts  Options
	key   hashKey
	clock clock

	plans   [1024]atomic.Pointer[plan] // by the limit's ID; a miss is worked out again
	mu      sync.Mutex                 // guards tables and their use; taken before any table's lock
	tables  map[string]*table          // by prefix
	counted int                        // tables that count towards MaxLimits
	work    sync.Pool                  // of *job

	room          int64        // for keys
	used          atomic.Int64 // of that
	forgottenRoom int64
	forgottenUsed atomic.Int64

	settlements *settlements
	legacy      map[rule.Shape]*legacy // what a snapshot of an earlier version held; it does not change once the store is in use
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
	if opts.MaxBytes == 0 {
		opts.MaxBytes = defaultBytes
	}
	if opts.MaxLimits == 0 {
		opts.MaxLimits = defaultLimits
	}
	if opts.MaxBytes < leastBytes || opts.MaxBytes > mostBytes {
		return nil, fmt.Errorf("memstore: MaxBytes: must be %d (256 KiB) to %d (1 TiB), or 0 for %d (256 MiB), not %d",
			leastBytes, int64(mostBytes), defaultBytes, opts.MaxBytes)
	}
	if opts.MaxLimits < 0 || opts.MaxLimits > mostLimits {
		return nil, fmt.Errorf("memstore: MaxLimits: must be 1 to %d, or 0 for the default, not %d", mostLimits, opts.MaxLimits)
	}
	part := opts.MaxBytes / 16
	s := &Store{
		opts: opts, clock: newClock(opts.Now), tables: map[string]*table{},
		room: keyShare * part, forgottenRoom: forgottenShare * part,
		settlements: newSettlements(settlementShare * part / settlementBytes),
	}
	s.work.New = func() any { return newJobMemory() }
	return s, nil
}

// Traits reports what the store can do.
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
	t, err := s.tableOf(bound)
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
