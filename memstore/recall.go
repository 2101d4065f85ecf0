package memstore

import "github.com/slidegate/slidegate/rule"

// forget remembers a live key that loses its slot. The caller has claimed the slot, so no other request decides about the
// key.
func (t *table) forget(h uint64, s *rule.State, now rule.Micros) {
	f := t.forgotten.Load()
	if f == nil {
		f = newForgotten(t.shape, t.store.reserveForgotten, t.store.releaseForgotten)
		if !t.forgotten.CompareAndSwap(nil, f) {
			f = t.forgotten.Load()
		}
	}
	f.remember(h, t.limit.Summarize(s, now), now)
	t.counts.evictions.Add(1)
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
	before := c.state
	if c.inherited { // it already has a floor, from before a restart
		before = before.Clone()
	}
	t.limit.Recall(known, &c.state)
	if c.inherited {
		t.limit.Cover(&c.state, &before, now)
	}
	c.inherited = true
}

// resetForgotten makes a key start with nothing again.
func (c *claim) resetForgotten(now rule.Micros) {
	t := c.plan.table
	if f := t.forgotten.Load(); f != nil {
		f.reset(c.h, now)
	}
	t.legacy.drop(c.h)
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
