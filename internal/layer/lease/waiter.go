package lease

import (
	"context"
	"time"

	"github.com/slidegate/slidegate/store"
)

// waiter is a request that waits for a lease. When the lease arrives, the waiters are served first, in order: if they
// had to compete with running callers, some would never win, and would have to go to the store themselves.
type waiter struct {
	limit *store.Limit
	cost  int64
	turns int         // leases that had too little for it
	got   chan *lease // receives the lease from which the cost was spent, or nil if there is none
}

// waiterOf returns a waiter from the pool.
func (s *Store) waiterOf(limit *store.Limit, cost int64) *waiter {
	w := s.waiters.Get().(*waiter)
	w.limit, w.cost, w.turns = limit, cost, 0
	return w
}

// await requests a lease if none is under way, and waits for units of it. It returns a nil lease if there were none,
// and false if there will be none or ctx has ended.
func (s *Store) await(ctx context.Context, e *holding, limit *store.Limit, cost int64) (l *lease, now int64, ok bool) {
	w := s.waiterOf(limit, cost)
	if !s.queueUp(e, w) {
		s.waiters.Put(w)
		return nil, 0, false
	}
	select {
	case l = <-w.got:
		ok = true
	case <-ctx.Done():
		l = e.leave(w)
	}
	s.waiters.Put(w)
	if l == nil {
		return nil, 0, ok
	}
	if now = s.clock.read(); !ok || now >= l.end {
		s.putBack(e, l, cost)
		return nil, 0, ok
	}
	if s.opts.Spent != nil {
		s.opts.Spent(Spend{limit, e.group, e.key, cost, l.at, time.Duration(l.end), time.Duration(now)})
	}
	return l, now, true
}

// queueUp puts a waiter in the queue, if a lease is under way or can be requested.
func (s *Store) queueUp(e *holding, w *waiter) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	now := s.clock.read()
	if !s.accept(e, w.limit, now) || !s.request(e, w.limit, now, w.cost) {
		return false
	}
	if len(e.waiting) == 0 {
		e.since = now
	}
	e.waiting = append(e.waiting, w)
	return true
}

// paceAt returns the units spent per span, given what was spent until now. The caller holds e.mu.
func (e *holding) paceAt(now, spent int64) int64 {
	if len(e.waiting) > 0 {
		e.pace.waited += now - e.since
		e.since = now
	}
	return e.pace.units(now, spent)
}

// leave removes a waiter from the queue. If it was served in the meantime, it returns the lease.
func (e *holding) leave(w *waiter) *lease {
	e.mu.Lock()
	defer e.mu.Unlock()
	for i := range e.waiting {
		if e.waiting[i] == w {
			e.waiting = append(e.waiting[:i], e.waiting[i+1:]...)
			return nil
		}
	}
	return <-w.got
}

// wantedUnits returns how many units the waiters need. The caller holds e.mu.
func (e *holding) wantedUnits() (units int64) {
	for _, w := range e.waiting {
		units += w.cost
	}
	return units
}

// serve gives units of a lease to the waiters, while there are enough. The others wait for the next lease, but not
// forever: their cost may exceed any lease. The caller holds e.mu.
func (e *holding) serve(l *lease) {
	left := e.waiting[:0]
	for _, w := range e.waiting {
		paid := false
		if sameRule(w.limit, l.limit) {
			_, paid = l.spend(w.cost)
		}
		w.turns++
		switch {
		case paid:
			w.got <- l
		case w.turns >= maxTurns:
			w.got <- nil
		default:
			left = append(left, w)
		}
	}
	clear(e.waiting[len(left):])
	e.waiting = left
}

// maxTurns is how many leases a request waits for: one that was under way when it came, and one that was requested
// because of it.
const maxTurns = 2

// dismiss wakes the waiters without a lease. The caller holds e.mu.
func (e *holding) dismiss() {
	for _, w := range e.waiting {
		w.got <- nil
	}
	clear(e.waiting)
	e.waiting = e.waiting[:0]
}
