// Package refusals remembers refusals, so that a client that keeps sending requests for a key costs the store one call
// instead of thousands. It is a store.Store that wraps another store, and refuses the same cost or more for the same
// key, without calling that store, until the time to retry has come. Usage can only fall in that time, so the decision
// is the one that the store would make.
//
// What it promises: the store would have refused whatever the layer refuses, as long as no other process resets, refunds
// or settles, or uses a token bucket with a different quota or burst, and the store's clock runs as fast as the local
// clock. Otherwise, a refusal can be wrong for at most Options.MaxAge. Resets, refunds and settlements through the same
// Store take effect immediately. The layer never admits anything on its own. All of its own answers carry rule.Cached.
//
// What it does not promise: the other fields of its answers are those of the store's last answer, adjusted for the time
// since; other callers may have used units that Remaining still counts. RetryAfter is never later than the true time.
// It is exact if the cost is the same, nothing was charged in between and the call to the store took no time. It is too
// early by the duration of that call, since time is counted from before it; by what others charged in between; and for
// a higher cost than the one the store refused, which goes to the store at that time. Requests made concurrently with
// the first, before its refusal is known, all reach the store.
//
// The following always go to the store: requests that are admitted, requests with a limit that counts refused requests,
// requests for a slot of an in-flight limit, which may be released at any time, leased limits, whose units other
// processes return all the time, token buckets for which this process uses several plans (limits of one name with
// different quotas or bursts: a plan that refills faster shortens the wait that another reported), costs that can never
// be admitted (unless a lower one is known to be refused), AllowUpTo, calls that count once, and requests of more than eight charges or more
// than a kilobyte of keys. Answers with any of rule.Flags are not remembered, such as refusals while reservations hold
// units, which may end at any time.
package refusals

import (
	"hash/maphash"
	"math"
	"sync"
	"sync/atomic"
	"time"

	"github.com/slidegate/slidegate/internal/layering"
	"github.com/slidegate/slidegate/rule"
	"github.com/slidegate/slidegate/store"
)

// Options configures a Store. The zero value is valid, and remembers 65,536 refusals for at most a second each.
type Options struct {
	// MaxAge is how long a refusal is remembered at most, counted from before the store was called. It bounds how long
	// this process can miss events that it cannot see: resets, refunds and settlements by other processes, a reset that
	// failed here but reached the store later, a store that lost its state, a store whose clock was set. 0 means a
	// second. A negative value means no bound, for programs that never reset, refund or settle in another process; a
	// refusal is then remembered until its time to retry, which can be hours away.
	MaxAge time.Duration
	// MaxKeys is about how many refusals are remembered at a time. 0 means 65,536. Each takes 18
	// bytes from the start and, once in use, about 160 more and the key. When there is no space for a new refusal, it
	// replaces one that ends soon: forgetting a refusal is always safe and only costs a call to the store.
	MaxKeys int
	// Now is the local clock, for tests: the time since any fixed instant. It must be safe for concurrent use and must
	// not go backwards. nil means the monotonic clock.
	Now func() time.Duration
}

const (
	defaultMaxAge  = time.Second
	defaultMaxKeys = 1 << 16
)

// Store is a store.Store that remembers the refusals of another. It is safe for concurrent use, starts no goroutine and
// needs no closing. The zero value is not usable; call New.
type Store struct {
	inner store.Store
	one   store.SingleTaker // inner, for single charges
	now   func() time.Duration
	base  time.Time // of the monotonic clock, if now is nil

	maxAge    time.Duration
	seed      maphash.Seed
	prefixes  [256]atomic.Pointer[prefix] // by the limit's ID; a miss is computed again
	plans     sync.Map                    // of *plans, by the prefix of a token bucket
	planCount atomic.Int64                // the number of plans
	buckets   []bucket
	work      sync.Pool // of *job

	entries atomic.Int64
	counts  [stripes]count
}

// New returns a store that remembers the refusals of inner.
func New(inner store.Store, opts Options) *Store {
	if opts.MaxKeys == 0 {
		opts.MaxKeys = defaultMaxKeys
	}
	switch {
	case opts.MaxAge == 0:
		opts.MaxAge = defaultMaxAge
	case opts.MaxAge < 0:
		opts.MaxAge = math.MaxInt64
	}
	s := &Store{
		inner: inner, now: opts.Now, base: time.Now(), maxAge: opts.MaxAge, seed: maphash.MakeSeed(),
		buckets: make([]bucket, (opts.MaxKeys+ways-1)/ways),
	}
	s.one = store.Single(inner)
	s.work.New = func() any { return new(job) }
	return s
}

// Check returns the result of the inner store's Check.
func (s *Store) Check(limit *store.Limit) error { return s.inner.Check(limit) }

// Traits returns the traits of the inner store.
func (s *Store) Traits() store.Traits { return s.inner.Traits() }

// Unwrap returns the inner store.
func (s *Store) Unwrap() store.Store { return s.inner }

// Layer returns the layer's place among others.
func (s *Store) Layer() layering.Layer { return layering.Refusals }

func (s *Store) clock() time.Duration {
	if s.now != nil {
		return s.now()
	}
	return time.Since(s.base)
}

// rememberable reports whether a refusal of this request may be remembered, and so whether one may be found. Where a
// limit counts refused requests, the store must receive each of them.
func (s *Store) rememberable(op rule.Op, group string, charges []store.Charge) bool {
	if op != rule.Take && op != rule.Peek || len(charges) == 0 || len(charges) > maxCharges {
		return false
	}
	size := len(group)
	for i := range charges {
		c := &charges[i]
		size += len(c.Key)
		if uint64(c.Cost) > rule.MaxQuota || !s.canRemember(c.Limit) {
			return false
		}
	}
	return size <= maxBytes
}

// canRemember reports whether refusals by a limit may be remembered.
func (s *Store) canRemember(limit *store.Limit) bool {
	r := limit.Rule()
	if r.Lease { // other processes return what they do not spend
		return false
	}
	switch r.Algorithm {
	case rule.InFlight: // a slot may be released at any time
		return false
	case rule.TokenBucket:
		return !s.prefixOf(limit).plans.several.Load() && !r.CountRefused
	default:
		return !r.CountRefused
	}
}

// lowers reports whether an operation returns units, which can invalidate a remembered refusal of the same address. A charge
// cannot, whichever limit it is made under.
func lowers(op rule.Op) bool { return op == rule.GiveBack || op == rule.Reset || op == rule.Settle }
