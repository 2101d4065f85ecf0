package lease

import (
	"sync"
	"sync/atomic"
	"time"

	"github.com/slidegate/slidegate/rule"
	"github.com/slidegate/slidegate/store"
)

// holding is what this process has of one address: the lease that is being spent, the next lease, and the store's last
// answer.
type holding struct {
	hash               uint64
	prefix, group, key string
	index              int // in the table's list; guarded by the table's lock

	current atomic.Pointer[lease]   // the lease to spend from
	refused atomic.Pointer[refusal] // the store's refusal, while it holds

	// The fields below are guarded by mu, which is taken once or twice per lease, not per spend.
	mu          sync.Mutex
	limit       *store.Limit // the limit of the leases: another value ends them
	next        *lease
	transfers   int           // transfers for this address that are queued or under way
	requesting  bool          // one of them is for a lease
	done        chan struct{} // closed when all of them are done; nil if no goroutine waits for that
	waiting     []*waiter     // for the lease, in order
	since       int64         // since when they wait; waiting time before that is counted in pace
	latency     int64         // how long calls for leases take
	turn        uint32        // transfers of an earlier turn are dropped
	begun       bool          // its pace is known
	resets      int           // resets under way: no lease is requested
	gone        bool          // no longer in the table
	barredUntil int64         // until when no lease is requested
	changed     int64         // when another limit value last came
	idle        int           // rounds of the keeper in which nothing was spent
	seen        sighting      // of the store's clock
	remains     int64         // units that remain, by the store's last answer
	pace        pace
	closed      tally // spent from closed leases
	lastSpent   int64 // what was spent at the keeper's last visit
}

// refusal is a refusal of the store that holds for a while: usage can only fall until a unit is returned.
type refusal struct {
	limit  *store.Limit
	cost   int64
	until  int64 // by the local clock, counted from before the store was called
	retry  int64 // the retry time of the store, counted from after it answered
	reset  int64
	answer rule.Answer
}

// refusalLife bounds how long a refusal is repeated: another process may return units that it has not spent.
const refusalLife = int64(50 * time.Millisecond)

func (e *holding) matches(h uint64, limit *store.Limit, group, key string) bool {
	return e.hash == h && e.key == key && e.group == group && e.prefix == limit.Prefix()
}

// sameRule reports whether two limits of one address are equal, so that a lease of one may be spent under the other.
func sameRule(a, b *store.Limit) bool { return a == b || *a.Rule() == *b.Rule() }

// spend takes units from the leases, and returns the clock reading that it was checked against. It reports whether
// there were enough.
func (s *Store) spend(e *holding, limit *store.Limit, cost int64) (l *lease, left, now int64, ok bool) {
	for l = e.current.Load(); l != nil; l = e.current.Load() {
		now = s.clock.read() // after the lease was found, and checked before it is spent
		if now >= l.end || !sameRule(l.limit, limit) {
			break
		}
		if left, ok = l.spend(cost); ok {
			if left <= l.low {
				s.renew(e, l)
			}
			if s.opts.Spent != nil {
				s.opts.Spent(Spend{limit, e.group, e.key, cost, l.at, time.Duration(l.end), time.Duration(now)})
			}
			return l, left, now, true
		}
		if !s.promote(e, l, now) {
			break
		}
	}
	return nil, 0, now, false
}

// promote replaces a lease that has too little left by the next one. It reports whether the lease was replaced, here or
// by another goroutine.
func (s *Store) promote(e *holding, old *lease, now int64) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.current.Load() != old {
		return true
	}
	if e.next == nil {
		return false
	}
	s.replace(e, e.next, now)
	e.next = nil
	return true
}

// replace makes l the lease to spend from. What is left of the previous lease is moved to l if it was charged in the
// same part, and is otherwise returned to the store. The caller holds e.mu.
func (s *Store) replace(e *holding, l *lease, now int64) {
	if old := e.current.Load(); old != nil {
		left := e.closeLease(old)
		switch {
		case left == 0:
		case l != nil && now < old.end && samePart(l, old):
			l.word.Add(uint64(left))
			l.size += left
		default:
			s.giveBack(e, old, left)
		}
	}
	e.current.Store(l)
}

// closeLease closes a lease and returns what is left of it. The caller holds e.mu.
func (e *holding) closeLease(l *lease) (left int64) {
	left, spends := l.close()
	e.closed.units += l.size - left
	e.closed.spends += spends
	return left
}

// samePart reports whether units charged with one lease may be spent until the end of the other.
func samePart(a, b *lease) bool {
	r := a.limit.Rule()
	return r.Algorithm != rule.TokenBucket && partEnd(r, a.at) == partEnd(r, b.at)
}

// end closes all leases and returns what is left of them to the store. The caller holds e.mu.
func (s *Store) end(e *holding, now int64) {
	s.replace(e, nil, now)
	if e.next != nil {
		if left := e.closeLease(e.next); left > 0 {
			s.giveBack(e, e.next, left)
		}
		e.next = nil
	}
}

// drop closes all leases and returns nothing to the store. The caller holds e.mu.
func (s *Store) drop(e *holding) {
	for _, l := range [...]*lease{e.current.Load(), e.next} {
		if l != nil {
			s.counts.wasted.Add(e.closeLease(l))
		}
	}
	e.current.Store(nil)
	e.next = nil
	e.turn++
}

// tally counts spends.
type tally struct {
	units  int64
	spends uint64
}

// spent returns the total spent, and how many units are leased and unspent. The caller holds e.mu.
func (e *holding) spent() (t tally, out int64) {
	t = e.closed
	for _, l := range [...]*lease{e.current.Load(), e.next} {
		if l != nil {
			left, spends := l.left()
			t.units += l.size - left
			t.spends += spends
			out += left
		}
	}
	return t, out
}
