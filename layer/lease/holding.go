package lease

import (
	"sync"
	"sync/atomic"
	"time"

	"github.com/slidegate/slidegate/rule"
	"github.com/slidegate/slidegate/store"
)

// holding is what this process has of one address: a block that is being spent, one that comes after it, and what the store
// said last.
type holding struct {
	hash               uint64
	prefix, group, key string
	place              int // in the table's list; guarded by the table's lock

	now    atomic.Pointer[block]   // the one to spend from
	denied atomic.Pointer[refusal] // what the store refused, if that still holds

	// All below is guarded by mu. It is taken once or twice for a block, not for a spend.
	mu       sync.Mutex
	limit    *store.Limit // whose blocks these are: another value ends them
	after    *block
	trips    int           // calls for this address that are waiting or under way
	asking   bool          // one of them is for a block
	landed   chan struct{} // closed when all of them are done; nil if nobody waits for that
	waiting  []*waiter     // for the block, in their order
	since    int64         // they wait, as far as the pace does not know of it
	trip     int64         // how long calls for blocks take
	turn     uint32        // calls that were asked for in an earlier turn are not made
	begun    bool          // its pace is known
	resets   int           // resets under way: no block is asked for
	gone     bool          // no longer in the table
	barred   int64         // until when no block is asked for
	changed  int64         // when another limit value came last
	idle     int           // rounds of the keeper in which nothing was spent
	seen     sighting      // of the store's clock
	remains  int64         // units, by the store's last answer
	pace     pace
	closed   tally // spent from blocks that are closed
	lastLook int64 // what was spent when the keeper came by
}

// refusal is an answer of the store that holds for a while: usage can only fall until a unit is given back.
type refusal struct {
	limit  *store.Limit
	cost   int64
	until  int64 // on the local clock, counted from before the store was asked
	retry  int64 // when the store said to come back, counted from after it answered
	reset  int64
	answer rule.Answer
}

// refusalLife bounds how long a refusal is repeated: another process may give back what it has not spent.
const refusalLife = int64(50 * time.Millisecond)

func (e *holding) is(h uint64, limit *store.Limit, group, key string) bool {
	return e.hash == h && e.key == key && e.group == group && e.prefix == limit.Prefix()
}

// same reports whether two limits of one address are the same value, so that a block of the one may be spent under the other.
func same(a, b *store.Limit) bool { return a == b || *a.Rule() == *b.Rule() }

// spend takes units from the blocks, and returns the reading of the clock that it was checked against. It is ok if there were
// enough.
func (s *Store) spend(e *holding, limit *store.Limit, cost int64) (b *block, left, now int64, ok bool) {
	for b = e.now.Load(); b != nil; b = e.now.Load() {
		now = s.clock.read() // after the block was found, and checked before it is spent
		if now >= b.end || !same(b.limit, limit) {
			break
		}
		if left, ok = b.spend(cost); ok {
			if left <= b.low {
				s.renew(e, b)
			}
			if s.opts.Spent != nil {
				s.opts.Spent(Spend{limit, e.group, e.key, cost, b.at, time.Duration(b.end), time.Duration(now)})
			}
			return b, left, now, true
		}
		if !s.promote(e, b, now) {
			break
		}
	}
	return nil, 0, now, false
}

// promote puts the next block in the place of one that has too little left, and reports whether it, or somebody else, did.
func (s *Store) promote(e *holding, old *block, now int64) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.now.Load() != old {
		return true
	}
	if e.after == nil {
		return false
	}
	s.replace(e, e.after, now)
	e.after = nil
	return true
}

// replace makes b the block to spend from. What is left of the one before moves over if it was charged in the same part, and
// goes back otherwise. The caller holds e.mu.
func (s *Store) replace(e *holding, b *block, now int64) {
	if old := e.now.Load(); old != nil {
		left := e.shut(old)
		switch {
		case left == 0:
		case b != nil && now < old.end && samePart(b, old):
			b.word.Add(uint64(left))
			b.size += left
		default:
			s.giveBack(e, old, left)
		}
	}
	e.now.Store(b)
}

// shut closes a block and returns what is left of it. The caller holds e.mu.
func (e *holding) shut(b *block) (left int64) {
	left, spends := b.close()
	e.closed.units += b.size - left
	e.closed.spends += spends
	return left
}

// samePart reports whether what was charged with one block may be spent until the end of the other.
func samePart(a, b *block) bool {
	r := a.limit.Rule()
	return r.Algorithm != rule.TokenBucket && partEnd(r, a.at) == partEnd(r, b.at)
}

// end closes all blocks and gives back what is left of them. The caller holds e.mu.
func (s *Store) end(e *holding, now int64) {
	s.replace(e, nil, now)
	if e.after != nil {
		if left := e.shut(e.after); left > 0 {
			s.giveBack(e, e.after, left)
		}
		e.after = nil
	}
}

// drop closes all blocks and gives nothing back. The caller holds e.mu.
func (s *Store) drop(e *holding) {
	for _, b := range [...]*block{e.now.Load(), e.after} {
		if b != nil {
			s.counts.wasted.Add(e.shut(b))
		}
	}
	e.now.Store(nil)
	e.after = nil
	e.turn++
}

// tally is what was spent.
type tally struct {
	units  int64
	spends uint64
}

// spent returns what was spent in all, and what is out. The caller holds e.mu.
func (e *holding) spent() (t tally, out int64) {
	t = e.closed
	for _, b := range [...]*block{e.now.Load(), e.after} {
		if b != nil {
			left, spends := b.left()
			t.units += b.size - left
			t.spends += spends
			out += left
		}
	}
	return t, out
}
