// Package denycache remembers refusals, so that a client that hammers costs the store one question and not thousands: a
// store.Store over another one that refuses the same cost or more for the same key by itself, until the time to
// retry has come. Usage can only fall in that time, so the verdict is the one that the store would give.
//
// What it promises. Whatever it refuses, the store would have refused, as long as nobody resets, gives back or settles in
// another process, or uses a token bucket there under another quota or burst, and the store's clock runs as fast as the local
// one. Where that is not so, a refusal can be untrue for at most Options.MaxAge. Resets, refunds and settlements through the
// same Store take effect at once. It never admits anything by itself. Every answer that it gives carries rule.Cached.
//
// What it does not promise. The other fields of its answers are as of the store's last one, moved along by the time
// that passed: others may have taken since from what Remaining says. RetryAfter is never later than the truth, and it is
// the truth if the same cost was asked for, nothing was charged meanwhile and asking took no time. It is too early by as
// long as the store took to be asked, for time is counted from before; by what others charged meanwhile; and for a
// higher cost than the one the store refused, which at that moment gets an answer from the store. Clients that ask at
// the same time as the first one, while nothing is known yet, all get to the store.
//
// What goes to the store every time: whatever is admitted, requests with a limit that counts refusals, requests for a slot
// of an in-flight limit, which may be released at any time, leased limits, of which other processes give units back all the
// time, token buckets of which this process uses several plans (limits of one name with different quotas or bursts: one that
// refills faster shortens the time that another was told to wait), costs that can never be admitted (unless a lower one is
// known to be refused), AllowUpTo, requests of more than eight charges or of more than a kilobyte of keys, and answers that
// did not come about in the plain way (any of rule.Flags).
package denycache

import (
	"fmt"
	"hash/maphash"
	"math"
	"sync"
	"sync/atomic"
	"time"

	"github.com/slidegate/slidegate"
	"github.com/slidegate/slidegate/rule"
	"github.com/slidegate/slidegate/store"
)

// Options are the choices of a Store. The zero value remembers 65,536 refusals for at most a second each.
type Options struct {
	// MaxAge is how long a refusal is remembered at most, counted from before the store was asked. It bounds how long this
	// process does not see what it cannot see: resets, refunds and settlements by other processes, a reset that failed here
	// but still came to the store later, a store that lost its state, a clock of the store that was set. 0 means a second. A
	// negative one means no bound, for those who never reset, give back or settle in another process; a refusal is then
	// remembered until its time to retry, which can be hours.
	MaxAge time.Duration
	// MaxKeys is about how many refusals are remembered at once. 0 means 65,536; the most is 2^26. Each takes 18 bytes from the beginning and,
	// once there, about 160 and the key. When there is no room for a new one, it takes the place of one that ends soon: to
	// forget a refusal is always safe, it only costs the store a question.
	MaxKeys int
	// Now is the local clock, for tests: the time since any fixed moment. It must be safe for concurrent use and must not
	// be set back. nil means the monotonic clock.
	Now func() time.Duration
}

// mostKeys is the most that Options.MaxKeys accepts.
const mostKeys = 1 << 26

const (
	defaultMaxAge  = time.Second
	defaultMaxKeys = 1 << 16
)

// Store is a store.Store that remembers the refusals of another. It is safe for concurrent use, starts no goroutine
// and needs no closing. The zero value is not usable; New makes it.
type Store struct {
	inner store.Store
	one   store.SingleTaker // inner, for single charges
	now   func() time.Duration
	base  time.Time // of the monotonic clock, if now is nil

	maxAge   time.Duration
	seed     maphash.Seed
	prefixes [256]atomic.Pointer[prefix] // by the limit's ID; a miss is worked out again
	plans    sync.Map                    // of *plans, by the prefix of a token bucket
	prefixed atomic.Int64                // how many of them there are
	buckets  []bucket
	work     sync.Pool // of *job

	entries atomic.Int64
	counts  [stripes]count
}

// New returns a store that remembers the refusals of store.
func New(st store.Store, opts Options) (*Store, error) {
	if st == nil {
		return nil, fmt.Errorf("denycache: store: must not be nil; give the store whose refusals are to be remembered")
	}
	if opts.MaxKeys < 0 || opts.MaxKeys > mostKeys {
		return nil, fmt.Errorf("denycache: MaxKeys: must be 1 to %d, or 0 for the default, not %d", mostKeys, opts.MaxKeys)
	}
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
		inner: st, now: opts.Now, base: time.Now(), maxAge: opts.MaxAge, seed: maphash.MakeSeed(),
		buckets: make([]bucket, (opts.MaxKeys+ways-1)/ways),
	}
	s.one = store.Single(st)
	s.work.New = func() any { return new(job) }
	return s, nil
}

// Check is that of the store below.
func (s *Store) Check(limit *store.Limit) error { return s.inner.Check(limit) }

// Traits are those of the store below.
func (s *Store) Traits() store.Traits { return s.inner.Traits() }

// Unwrap returns the store below.
func (s *Store) Unwrap() store.Store { return s.inner }

// clock reads the local clock.
func (s *Store) clock() time.Duration {
	if s.now != nil {
		return s.now()
	}
	return time.Since(s.base)
}

// rememberable reports whether a refusal of this request may be remembered, and so whether it is worth looking for one.
// Where a limit counts refusals the store has to hear of each of them.
func (s *Store) rememberable(op rule.Op, group string, charges []store.Charge) bool {
	if op != rule.Take && op != rule.Peek || len(charges) == 0 || len(charges) > maxCharges {
		return false
	}
	size := len(group)
	for i := range charges {
		c := &charges[i]
		size += len(c.Key)
		if uint64(c.Cost) > rule.MaxQuota || !s.lastsIn(c.Limit) {
			return false
		}
	}
	return size <= maxBytes
}

// lastsIn reports whether refusals by a limit may be remembered.
func (s *Store) lastsIn(limit *store.Limit) bool {
	r := limit.Rule()
	if r.Lease { // other processes give back what they do not spend
		return false
	}
	switch r.Algorithm {
	case rule.InFlight: // a slot may be released at any time
		return false
	case rule.TokenBucket:
		return !s.prefixOf(limit).plans.several.Load() && !r.CountDenied
	default:
		return !r.CountDenied
	}
}

// lowers reports whether an operation can make a refusal untrue that was remembered of the same address. Besides those that
// are there to do so, these are writes to a log beyond its quota: they cut it to the quota of the limit they come with,
// and a refusal by another limit of the same address, one with a larger quota, may have counted what is cut off.
func lowers(op rule.Op, limit *rule.Limit) bool {
	switch op {
	case rule.GiveBack, rule.Reset, rule.Settle:
		return true
	case rule.Charge:
		return limit.Algorithm == slidegate.SlidingLog
	case rule.Take, rule.TakeUpTo:
		return limit.Algorithm == slidegate.SlidingLog && limit.CountDenied
	default:
		return false
	}
}
