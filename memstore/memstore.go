// Package memstore keeps the state of limits in the memory of the process: no server, no allocation per decision, bounded
// memory, and nothing per key for the garbage collector to scan. It is the store to begin with, and the one that others
// fall back to.
package memstore

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"

	"github.com/slidegate/slidegate/rule"
	"github.com/slidegate/slidegate/store"
)

// Options configures a Store. The zero value is valid: a store of up to 256 MiB.
type Options struct {
	// MaxBytes is how much memory the store takes at most. 0 means 256 MiB; the minimum is 256 KiB, the maximum 1 TiB. It
	// is allocated as keys arrive, starting with 16 KB per limit. Garbage collection may double it, as it does all memory
	// of a Go program; debug.SetMemoryLimit bounds that.
	//
	// Half of it is for keys. For each limit that applies to it, a key takes 87 to 120 bytes if the limit names no
	// algorithm, plus 4 to 7 for each unit beyond the eleventh while it is a log (6 if the window is longer than 71
	// minutes); in parts, 64 more if its units are in more than 16 of them, and 128 if one of these has more than 255.
	// Named sliding logs take the same. A sliding window of one segment or a fixed window takes 21 to 28 bytes, and twice
	// that if its counts are too large to be packed or its windows do not begin at multiples of their length; a token
	// bucket and a window of up to 15 segments 87 to 120; 60 segments 270; and an in-flight limit 87 to 120 bytes, plus 21
	// for each slot beyond the second. So 256 MiB hold a million keys by default, or 5 million of one segment.
	//
	// What reservations hold takes about 100 bytes for each key and reservation, of the half for keys, and a quarter of
	// MaxBytes at most. Beyond that, a request to hold more is refused, with the flag HoldsFull.
	//
	// If there is no space for a new key, it replaces the least-used key near it, and the replaced key is remembered in
	// less space: about 5 bytes per key, in up to three eighths of MaxBytes. A key that was forgotten, and in rare cases
	// one that looks like it, starts with at least what it had used, and the answer has the flag Inherited. So a flood of
	// new keys can cause refusals, but never admissions. Limits share the space equally if they need it.
	//
	// An eighth is for settlements of reservations and for calls that count once, at 128 bytes each. They are remembered for
	// one to two times as long as the units of their limits count. If there is no space, another settlement changes nothing,
	// and its answer has the flag Unsettled; another call is charged, and has the flag NotOnce.
	MaxBytes int64
	// RefuseWhenFull makes a decision about a new key return ErrFull instead of forgetting another key. One limit then gets
	// at most seven eighths of the space that others have left.
	RefuseWhenFull bool
	// Synced makes a store that Open returns answer a request that changes something only when that is on the disk.
	Synced bool
	// MaxLimits is the maximum number of different limits (namespace, name, algorithm, window, segments, anchor, calendar,
	// zone). A limit without a live key makes space for another. Limits passed to Prepare do not count, nor do those of a
	// folder before they are requested. 0 means 4,096; the maximum is 1,048,576.
	MaxLimits int
	// Now is the clock, in microseconds since the Unix epoch, for replaying recorded traffic and for tests. It must be safe
	// for concurrent use. nil means the monotonic clock, set by the wall clock when the store is created.
	Now func() rule.Micros
	// Logger gets what Open found at the end of the recorded state, if that was not complete, and why decisions are not durable. nil
	// means none.
	Logger *slog.Logger

	pause func(point string) // of the journal, for tests
}

// Bounds of Options.
const (
	defaultBytes  = 256 << 20
	minBytes      = 256 << 10
	maxBytes      = 1 << 40
	defaultLimits = 1 << 12
	maxLimits     = 1 << 20
)

// maxCharges is how many limits one request may have.
const maxCharges = 64

// Errors of a Store.
var (
	// ErrFull is returned for a new key if Options.RefuseWhenFull is set and there is no space for it.
	ErrFull = errors.New("memstore: full of live keys")
	// ErrLimits is returned for a new limit if Options.MaxLimits limits with live keys exist already.
	ErrLimits = errors.New("memstore: too many limits")
)

// Store is a store.Store in memory. It is safe for concurrent use. The zero value is not usable; call New.
//
// Keys are not stored, only a hash of 64 bits, computed with a random key of 128 bits: among a million live keys, the
// chance that any two of them share their counts is about 1 in 18 million, and an attacker who does not know the random
// key cannot choose keys that do. Apply and TakeSingle never block for long, and check their context only before they
// decide.
type Store struct {
	store.Registry // the limits of the limiters over this store

	opts  Options
	key   hashKey
	clock clock

	plans   [1024]atomic.Pointer[plan] // by the limit's ID; a missing plan is computed again
	mu      sync.Mutex                 // guards tables and their use; taken before any table's lock
	tables  map[string]*table          // by prefix
	counted int                        // tables that count towards MaxLimits
	work    sync.Pool                  // of *job

	capacity          int64        // capacity for keys, in bytes
	used              atomic.Int64 // bytes of capacity in use
	forgottenCapacity int64
	forgottenUsed     atomic.Int64

	heldBytes atomic.Int64 // bytes of used that holds take
	sweepAt   atomic.Int64 // when to search for holds that have ended
	sweeping  sync.Mutex

	keeper *keeper     // nil if the store is in memory only
	opened rule.Micros // when it was

	documents   map[string]document // by name; guarded by mu
	settlements *settlements
}

// New returns an empty store.
func New(opts Options) (*Store, error) {
	s, err := newStore(opts)
	if err == nil {
		rand.Read(s.key[:]) //nolint:errcheck // it never fails; see crypto/rand
	}
	return s, err
}

// NewDefault returns an empty store with the default Options, which cannot fail. Every call returns a new store.
func NewDefault() *Store {
	s, err := New(Options{})
	if err != nil {
		panic(err) // unreachable: the defaults are in range
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
	if opts.MaxBytes < minBytes || opts.MaxBytes > maxBytes {
		return nil, fmt.Errorf("memstore: MaxBytes: must be %d (256 KiB) to %d (1 TiB), or 0 for %d (256 MiB), not %d",
			minBytes, int64(maxBytes), defaultBytes, opts.MaxBytes)
	}
	if opts.MaxLimits < 0 || opts.MaxLimits > maxLimits {
		return nil, fmt.Errorf("memstore: MaxLimits: must be 1 to %d, or 0 for the default, not %d", maxLimits, opts.MaxLimits)
	}
	part := opts.MaxBytes / 16
	s := &Store{
		opts: opts, clock: newClock(opts.Now), tables: map[string]*table{}, documents: map[string]document{},
		capacity: keyShare * part, forgottenCapacity: forgottenShare * part,
		settlements: newSettlements(settlementShare * part / settlementBytes),
	}
	s.work.New = func() any { return newJobMemory() }
	return s, nil
}

// Traits reports what the store can do.
func (s *Store) Traits() store.Traits {
	return store.Traits{Name: "memory", MaxCharges: maxCharges}
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
	if len(r.Charges) == 0 || len(r.Charges) > maxCharges || len(r.Answers) < len(r.Charges) {
		return fmt.Errorf("memstore: %w: a request must have 1 to %d charges and an answer for each, not %d and %d",
			store.ErrUnsupported, maxCharges, len(r.Charges), len(r.Answers))
	}
	if len(r.Charges) > 1 || r.Op != rule.Take || r.Hold || r.Once || r.Group != "" || r.Charges[0].Limit.Rule().Algorithm == rule.InFlight {
		if err := ctx.Err(); err != nil {
			return endedError(err)
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

// endedError returns the error of a request whose context had ended before it arrived.
func endedError(err error) error { return fmt.Errorf("memstore: %w", err) }

// plan is what the store computes once per limit.
type plan struct {
	bound *store.Limit
	limit *rule.Limit
	table *table
	// The hash of what precedes group and key in an address, and the schedule for short keys without a group.
	prefix hasher
	short  schedule
	tag    uint32 // what stands for the limit in the store's journal, if it has one
	notes  *notes // nil if takes are not noted under the tag
}

func (s *Store) planOf(bound *store.Limit) (*plan, error) {
	if p := s.plans[bound.ID()%uint64(len(s.plans))].Load(); p != nil && p.bound == bound {
		return p, nil
	}
	return s.newPlan(bound)
}

func (s *Store) newPlan(bound *store.Limit) (*plan, error) {
	limit := bound.Rule()
	t, tag, own, err := s.tableOf(bound)
	if err != nil {
		return nil, err
	}
	p := &plan{bound: bound, limit: limit, table: t, prefix: newHasher(s.key).field(bound.Prefix()), tag: tag}
	if own {
		p.notes = &notes{s.keeper, tag}
	}
	p.short = newSchedule(p.prefix)
	s.plans[bound.ID()%uint64(len(s.plans))].Store(p)
	return p, nil
}

// hash returns the hash of an address, which is never one of the reserved hashes.
func (p *plan) hash(group, key string) uint64 {
	if group == "" && len(key) <= shortKey {
		return p.hashShort(key)
	}
	return max(p.prefix.field(group).sum(key), reserved)
}

// hashShort is hash for short keys without a group.
func (p *plan) hashShort(key string) uint64 { return max(p.short.sum(key), reserved) }
