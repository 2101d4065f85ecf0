package denycache

import (
	"hash/maphash"
	"math/bits"
	"sync"
	"sync/atomic"
	"time"

	"github.com/slidegate/slidegate/rule"
	"github.com/slidegate/slidegate/store"
)

// ways is how many places a bucket has: with its turn they fill a line of the processor's cache, so that a look that
// finds nothing reads one line.
const ways = 7

// bucket is where the refusals of some addresses are. It is read without a lock: an entry never changes once it is there.
type bucket struct {
	// turn says how often what belongs to these addresses was lowered, by a reset for example, in its upper half, and in its
	// lower half how many requests that do so are on their way. A refusal is true as long as the turn is the one that was
	// read before the store was asked: an answer that a reset overtook comes with an old turn, and is never found.
	turn    atomic.Uint64
	hashes  [ways]atomic.Uint64
	entries [ways]atomic.Pointer[entry]
	mu      sync.Mutex // held by whoever writes to hashes and entries
}

const (
	onItsWay = 1       // in a turn: a request that lowers something
	lowered  = 1 << 32 // in a turn: something was lowered
)

// home is the bucket that a hash belongs to.
func (s *Store) home(hash uint64) *bucket {
	place, _ := bits.Mul64(hash, uint64(len(s.buckets)))
	return &s.buckets[place]
}

// address hashes an address. Addresses that share a hash share a bucket and its turn, but never an entry, which has the
// whole address in it.
func (s *Store) address(limit *store.Limit, group, key string) uint64 {
	hash := s.prefixOf(limit).hash + maphash.String(s.seed, key)
	if group != "" {
		hash = hash*0xbf58476d1ce4e5b9 + maphash.String(s.seed, group)
	}
	return hash
}

// prefix is the hash of a limit's part of an address, which takes longer than that of most keys.
type prefix struct {
	limit *store.Limit
	hash  uint64
	plans *plans // of a token bucket, else nil
}

// plans are the token buckets of one prefix. What is missing from a bucket is refilled at the rate of the limit that next
// writes it. So where there are several limits, one may admit before the time that another was told to wait has passed.
type plans struct {
	quota, burst int64 // of the first one
	several      atomic.Bool
}

// mostPrefixes is how many prefixes of token buckets are known at once; refusals of others are not remembered.
const mostPrefixes = 4096

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

// plansOf returns the plans that a token bucket is one of.
func (s *Store) plansOf(limit *store.Limit) *plans {
	r := limit.Rule()
	known, ok := s.plans.Load(limit.Prefix())
	if !ok && s.prefixed.Load() < mostPrefixes {
		known, ok = s.plans.LoadOrStore(limit.Prefix(), &plans{quota: r.Quota, burst: r.Burst})
		if !ok {
			s.prefixed.Add(1)
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

// begin is called before a request that lowers something. Until it ends, its addresses are left to the store: nobody can
// know whether the store has done it yet.
func (s *Store) begin(group string, charges []store.Charge) { s.turn(group, charges, onItsWay) }

// end is called once the store has answered.
func (s *Store) end(group string, charges []store.Charge) {
	s.turn(group, charges, lowered-onItsWay)
}

// heed forgets what was known about addresses whose states the store moved back in time: the clock had jumped, or the
// limit has changed so much that it looks like that, and what was true by the old times is not by the new.
func (s *Store) heed(flags rule.Flags, group string, charges []store.Charge) {
	if flags.ClockMoved() {
		s.turn(group, charges, lowered)
	}
}

func (s *Store) turn(group string, charges []store.Charge, by uint64) {
	for i := range charges {
		c := &charges[i]
		s.home(s.address(c.Limit, group, c.Key)).turn.Add(by)
	}
}

// look is what was seen before the store was asked.
type look struct {
	now  time.Duration
	hash uint64
	turn uint64  // the turns of all addresses, added up: each of them only grows, so a sum that is the same says it all
	home *bucket // nil if nothing may be answered from memory, nor remembered of the answer
	hit  bool    // for a request of a batch: it was answered
}

// see fills l, in place: copies of it take longer than all the rest.
func (s *Store) see(l *look, group string, charges []store.Charge) {
	var hash, sum, every uint64 // every is what is set in any turn
	for i := range charges {
		c := &charges[i]
		address := s.address(c.Limit, group, c.Key)
		turn := s.home(address).turn.Load()
		sum += turn
		every |= turn
		hash = bits.RotateLeft64(hash, 23)*0x94d049bb133111eb + address
	}
	l.hash, l.turn, l.home = hash, sum, quiet(s.home(hash), every)
}

// quiet returns b, or nil if the turn says that something is on its way.
func quiet(b *bucket, turn uint64) *bucket {
	if uint32(turn) != 0 {
		return nil
	}
	return b
}

// mayHold reports whether there is anything of this hash.
func (b *bucket) mayHold(hash uint64) bool {
	for i := range b.hashes {
		if b.hashes[i].Load() == hash {
			return true
		}
	}
	return false
}

// find returns what is known about a request, or nil if that does not refuse it.
func (l *look) find(group string, charges []store.Charge) *entry {
	if l.home == nil {
		return nil
	}
	for i := range l.home.hashes {
		if l.home.hashes[i].Load() != l.hash {
			continue
		}
		if e := l.home.entries[i].Load(); e != nil && e.turn == l.turn && e.left(l.now) >= 0 &&
			e.same(group, charges) && e.refuses(charges) {
			return e
		}
	}
	return nil
}

// learn remembers a refusal, if it is one that lasts.
func (s *Store) learn(l *look, group string, charges []store.Charge, answers []rule.Answer) {
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
	place := b.place(l, group, charges)
	old := b.entries[place].Load()
	switch {
	case old == nil:
		s.entries.Add(1)
	case old.turn == l.turn && old.left(l.now) >= last && old.same(group, charges) && old.refuses(charges):
		return // many asked at once: what another one brought says as much
	}
	b.entries[place].Store(newEntry(l, last, group, charges, answers))
	b.hashes[place].Store(l.hash)
}

// place returns where in a bucket the refusal of a request belongs: where one of the same request is, else where none is,
// else where the one is that ends first. The lock is held.
func (b *bucket) place(l *look, group string, charges []store.Charge) int {
	best, bestLeft := 0, time.Duration(0)
	for i := range b.entries {
		e := b.entries[i].Load()
		if e == nil {
			return i // places are filled in order, so the same request is not in a later one
		}
		if e.hash == l.hash && e.same(group, charges) {
			return i
		}
		if left := e.left(l.now); i == 0 || left < bestLeft {
			best, bestLeft = i, left
		}
	}
	return best
}
