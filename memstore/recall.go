package memstore

import (
	"github.com/slidegate/slidegate/rule"

	"github.com/slidegate/slidegate/internal/summary"
)

// forget remembers a live key that loses its slot. The caller has claimed the slot, so no other request decides about the
// key.
func (t *table) forget(h uint64, s *rule.State, now rule.Micros) {
	t.forgottenKeys().remember(h, summary.Of(&t.limit, s, now), now)
	t.counts.evictions.Add(1)
}

// forgottenKeys returns the table's memory of forgotten keys.
func (t *table) forgottenKeys() *forgotten {
	if f := t.forgotten.Load(); f != nil {
		return f
	}
	t.forgotten.CompareAndSwap(nil, newForgotten(t.limit, t.store.reserveForgotten, t.store.releaseForgotten))
	return t.forgotten.Load()
}

// recallForgotten makes a key without a slot start with what it had used when it was forgotten, or with what a key that
// looks like it had used.
func (c *claim) recallForgotten(now rule.Micros) {
	t := c.plan.table
	f := t.forgotten.Load()
	if f == nil {
		return
	}
	known, found := f.recall(c.h, now)
	if !found {
		return
	}
	known.Recall(&t.limit, &c.state)
	c.inherited = true
}

// resetForgotten makes a key start with nothing again.
func (c *claim) resetForgotten(now rule.Micros) {
	f := c.plan.table.forgotten.Load()
	c.freed = f != nil && f.reset(c.h, now)
}

// reserveForgotten reserves memory for forgotten keys, at most half of what is left, so that other limits can have some.
func (s *Store) reserveForgotten(n int64) bool {
	for {
		used := s.forgottenUsed.Load()
		if n > (s.forgottenCapacity-used)/2 {
			return false
		}
		if s.forgottenUsed.CompareAndSwap(used, used+n) {
			return true
		}
	}
}

func (s *Store) releaseForgotten(n int64) { s.forgottenUsed.Add(-n) }

// until returns when the last remembered key expires; 0 if there is none.
func (f *forgotten) until() (last rule.Micros) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, l := range f.layers {
		last = max(last, l.latest+l.life)
	}
	return last
}

// close releases all memory.
func (f *forgotten) close() { f.expire(rule.Never) }
