package refusals

import (
	"hash/maphash"
	"math/bits"
	"sync"
	"sync/atomic"
	"time"

	"github.com/slidegate/slidegate/rule"
	"github.com/slidegate/slidegate/store"
)

// ways is the number of entries in a bucket: with its turn they fill a processor cache line, so that a lookup that
// finds nothing reads one line.
const ways = 7

// bucket holds the refusals of some addresses. It is read without a lock: an entry never changes once it is stored.
type bucket struct {
	// turn counts, in its upper half, how often the usage of these addresses was lowered, by a reset for example, and
	// in its lower half how many requests that lower it are under way. A refusal holds as long as the turn is the one
	// that was read before the store was called: an answer overtaken by a reset has an old turn, and is never found.
	turn    atomic.Uint64
	hashes  [ways]atomic.Uint64
	entries [ways]atomic.Pointer[entry]
	mu      sync.Mutex // guards writes to hashes and entries
}

const (
	pending = 1       // added to a turn for a request that lowers usage
	lowered = 1 << 32 // added to a turn for usage that was lowered
)

// home returns the bucket of a hash.
func (s *Store) home(hash uint64) *bucket {
	index, _ := bits.Mul64(hash, uint64(len(s.buckets)))
	return &s.buckets[index]
}

// address hashes an address. Addresses with equal hashes share a bucket and its turn, but never an entry, which
// contains the whole address.
func (s *Store) address(limit *store.Limit, group, key string) uint64 {
	hash := s.prefixOf(limit).hash + maphash.String(s.seed, key)
	if group != "" {
		hash = hash*0xbf58476d1ce4e5b9 + maphash.String(s.seed, group)
	}
	return hash
}

// prefix caches the hash of a limit's part of an address, which takes longer than the hash of most keys.
type prefix struct {
	limit *store.Limit
	hash  uint64
	plans *plans // of a token bucket, otherwise nil
}

// plans records whether several token buckets share one prefix. A bucket refills at the rate of the limit that next
// writes it, so with several limits, one may admit before the wait reported by another has passed.
type plans struct {
	quota, burst int64 // of the first limit
	several      atomic.Bool
}

// maxPrefixes is how many prefixes of token buckets are remembered; refusals of others are not.
const maxPrefixes = 4096

func (s *Store) prefixOf(limit *store.Limit) *prefix {
	p := s.prefixes[limit.ID()%uint64(len(s.prefixes))].Load()
	if p == nil || p.limit != limit {
		p = s.newPrefix(limit)
	}
	return p
}

func (s *Store) newPrefix(limit *store.Limit) *prefix {
	p := &prefix{limit: limit, hash: maphash.String(s.seed, limit.Prefix()) * 0x9e3779b97f4a7c15}
	if limit.Rule().Algorithm == rule.TokenBucket {
		p.plans = s.plansOf(limit)
	}
	s.prefixes[limit.ID()%uint64(len(s.prefixes))].Store(p)
	return p
}

// plansOf returns the plans that share the prefix of a token bucket.
func (s *Store) plansOf(limit *store.Limit) *plans {
	r := limit.Rule()
	known, ok := s.plans.Load(limit.Prefix())
	if !ok && s.planCount.Load() < maxPrefixes {
		known, ok = s.plans.LoadOrStore(limit.Prefix(), &plans{quota: r.Quota, burst: r.Burst})
		if !ok {
			s.planCount.Add(1)
		}
		ok = true
	}
	if !ok {
		unknown := new(plans)
		unknown.several.Store(true)
		return unknown
	}
	p := known.(*plans)
	if p.quota != r.Quota || p.burst != r.Burst {
		p.several.Store(true)
	}
	return p
}

// begin is called before a request that lowers usage. Until it ends, requests for its addresses go to the store:
// whether the store has carried it out is unknown.
func (s *Store) begin(group string, charges []store.Charge) { s.turn(group, charges, pending) }

// end is called once the store has answered.
func (s *Store) end(group string, charges []store.Charge) {
	s.turn(group, charges, lowered-pending)
}

// forgetMoved forgets refusals of addresses whose states the store moved back in time: the clock had jumped, or the limit has
// changed so much that it looks like a jump, and times before it no longer apply.
func (s *Store) forgetMoved(flags rule.Flags, group string, charges []store.Charge) {
	if flags&rule.ClockMoved != 0 {
		s.turn(group, charges, lowered)
	}
}

func (s *Store) turn(group string, charges []store.Charge, by uint64) {
	for i := range charges {
		c := &charges[i]
		s.home(s.address(c.Limit, group, c.Key)).turn.Add(by)
	}
}

// lookup is what was read before the store was called.
type lookup struct {
	now  time.Duration
	hash uint64
	turn uint64  // the sum of the turns of all addresses: each only grows, so equal sums mean equal turns
	home *bucket // nil if the cache must not answer the request, nor remember its answer
	hit  bool    // for a request of a batch: the cache answered it
}

// fillLookup fills l in place: copying it would take longer than everything else.
func (s *Store) fillLookup(l *lookup, group string, charges []store.Charge) {
	var hash, sum, every uint64 // every has the bits that are set in any turn
	for i := range charges {
		c := &charges[i]
		address := s.address(c.Limit, group, c.Key)
		turn := s.home(address).turn.Load()
		sum += turn
		every |= turn
		hash = bits.RotateLeft64(hash, 23)*0x94d049bb133111eb + address
	}
	l.hash, l.turn, l.home = hash, sum, quietBucket(s.home(hash), every)
}

// quietBucket returns b, or nil if the turn shows a request under way.
func quietBucket(b *bucket, turn uint64) *bucket {
	if uint32(turn) != 0 {
		return nil
	}
	return b
}

// mayHold reports whether the bucket may have an entry with this hash.
func (b *bucket) mayHold(hash uint64) bool {
	for i := range b.hashes {
		if b.hashes[i].Load() == hash {
			return true
		}
	}
	return false
}

// find returns the remembered refusal of a request, or nil.
func (l *lookup) find(group string, charges []store.Charge) *entry {
	if l.home == nil {
		return nil
	}
	for i := range l.home.hashes {
		if l.home.hashes[i].Load() != l.hash {
			continue
		}
		if e := l.home.entries[i].Load(); e != nil && e.turn == l.turn && e.left(l.now) >= 0 &&
			e.sameCharges(group, charges) && e.refuses(charges) {
			return e
		}
	}
	return nil
}

// add remembers a refusal, unless it expires immediately.
func (s *Store) add(l *lookup, group string, charges []store.Charge, answers []rule.Answer) {
	if l.home == nil {
		return
	}
	last, ok := s.lasts(answers)
	if !ok {
		return
	}
	b := l.home
	b.mu.Lock()
	defer b.mu.Unlock()
	index := b.entryIndex(l, group, charges)
	old := b.entries[index].Load()
	switch {
	case old == nil:
		s.entries.Add(1)
	case old.turn == l.turn && old.left(l.now) >= last && old.sameCharges(group, charges) && old.refuses(charges):
		return // a concurrent request has stored a refusal that lasts as long
	}
	b.entries[index].Store(newEntry(l, last, group, charges, answers))
	b.hashes[index].Store(l.hash)
}

// entryIndex returns the index for the refusal of a request: the one that the same request has, otherwise a free one,
// otherwise the one of the refusal that ends first. The lock is held.
func (b *bucket) entryIndex(l *lookup, group string, charges []store.Charge) int {
	best, bestLeft := 0, time.Duration(0)
	for i := range b.entries {
		e := b.entries[i].Load()
		if e == nil {
			return i // entries are filled in order, so the same request is not in a later one
		}
		if e.hash == l.hash && e.sameCharges(group, charges) {
			return i
		}
		if left := e.left(l.now); i == 0 || left < bestLeft {
			best, bestLeft = i, left
		}
	}
	return best
}
