package lease

import (
	"context"
	"time"

	"github.com/slidegate/slidegate/store"
)

// waiter is a request that waits for a block. When it lands, those who wait are served first, in their order: if they had to
// be quicker than the callers who run already, some would never be, and would have to go to the store by themselves.
type waiter struct {
	limit *store.Limit
	cost  int64
	turns int         // blocks that had too little for it
	got   chan *block // gets the block of which the cost was spent, or nil if there is none
}

// waiterOf returns a waiter that is used again.
func (s *Store) waiterOf(limit *store.Limit, cost int64) *waiter {
	w := s.waiters.Get().(*waiter)
	w.limit, w.cost, w.turns = limit, cost, 0
	return w
}

// await asks for a block if none is on its way, and waits for units of it. It returns nil if there were none, and false if there
// will be none or ctx has ended.
func (s *Store) await(ctx context.Context, e *holding, limit *store.Limit, cost int64) (b *block, now int64, ok bool) {
	w := s.waiterOf(limit, cost)
	if !s.queueUp(e, w) {
		s.waiters.Put(w)
		return nil, 0, false
	}
	select {
	case b = <-w.got:
		ok = true
	case <-ctx.Done():
		b = e.leave(w)
	}
	s.waiters.Put(w)
	if b == nil {
		return nil, 0, ok
	}
	if now = s.clock.read(); !ok || now >= b.end {
		s.putBack(e, b, cost)
		return nil, 0, ok
	}
	if s.opts.Spent != nil {
		s.opts.Spent(Spend{limit, e.group, e.key, cost, b.at, time.Duration(b.end), time.Duration(now)})
	}
	return b, now, true
}

// queueUp puts a waiter in the queue, if a block is on its way or can be asked for.
func (s *Store) queueUp(e *holding, w *waiter) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	now := s.clock.read()
	if !s.accept(e, w.limit, now) || !s.ask(e, w.limit, now, w.cost) {
		return false
	}
	e.waiting = append(e.waiting, w)
	return true
}

// leave takes a waiter out of the queue. If it was served meanwhile, it returns the block.
func (e *holding) leave(w *waiter) *block {
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

// wanted returns how many units those who wait ask for. The caller holds e.mu.
func (e *holding) wanted() (units int64) {
	for _, w := range e.waiting {
		units += w.cost
	}
	return units
}

// serve hands the units of a block to those who wait, while there are enough. The others wait for the next one, but not for
// ever: what they cost may be more than a block has. The caller holds e.mu.
func (e *holding) serve(b *block) {
	left := e.waiting[:0]
	for _, w := range e.waiting {
		paid := false
		if same(w.limit, b.limit) {
			_, paid = b.spend(w.cost)
		}
		w.turns++
		switch {
		case paid:
			w.got <- b
		case w.turns >= mostTurns:
			w.got <- nil
		default:
			left = append(left, w)
		}
	}
	clear(e.waiting[len(left):])
	e.waiting = left
}

// mostTurns is for how many blocks a request waits: one that was under way when it came, and one that was asked for because of
// it.
const mostTurns = 2

// dismiss lets those who wait know that there is nothing for them. The caller holds e.mu.
func (e *holding) dismiss() {
	for _, w := range e.waiting {
		w.got <- nil
	}
	clear(e.waiting)
	e.waiting = e.waiting[:0]
}
