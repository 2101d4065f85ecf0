package memstore

import "github.com/slidegate/slidegate/rule"

// forget remembers a live key that loses its place. The caller has claimed its slot, so nobody decides about it meanwhile.
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

// recallForgotten lets a key that is not there begin with what it, or one that looks like it, had used when it was forgotten.
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
	if c.inherited { // it has a floor already, from before a restart
		before = before.Clone()
	}
	t.limit.Recall(known, &c.state)
	if c.inherited {
		t.limit.Cover(&c.state, &before, now)
	}
	c.inherited = true
}

// resetForgotten lets a key begin with nothing again.
func (c *claim) resetForgotten(now rule.Micros) {
	t := c.plan.table
	if f := t.forgotten.Load(); f != nil {
		f.reset(c.h, now)
	}
	t.legacy.taken(c.h)
}

// reserveForgotten takes memory for what is remembered, at most half of what is left, so that there is some for other limits.
func (s *Store) reserveForgotten(n int64) bool {
	for {
		used := s.forgottenUsed.Load()
		if n > (s.forgottenRoom-used)/2 {
			return false
		}
		if s.forgottenUsed.CompareAndSwap(used, used+n) {
			return true
		}
	}
}

func (s *Store) releaseForgotten(n int64) { s.forgottenUsed.Add(-n) }

// until returns when the last of what is remembered expires; 0 if nothing is.
func (f *forgotten) until() (last rule.Micros) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, l := range f.layers {
		last = max(last, l.latest+l.life)
	}
	return last
}

// close gives all memory back.
func (f *forgotten) close() { f.expire(rule.Never) }
