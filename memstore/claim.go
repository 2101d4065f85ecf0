package memstore

import (
	"slices"

	"github.com/slidegate/slidegate/rule"
)

// claim is one charge of a job, and the slot that is claimed for it.
type claim struct {
	plan *plan
	h    uint64
	cost int64
	used int64
	at   rule.Micros
	page *page
	form form

	slot      int  // claimed, or -1
	closed    bool // the slot has been written or released
	word      uint64
	state     rule.State // the state in the slot, or the initial state of a key without a slot
	freed     bool       // something that was forgotten of the key was freed
	evicts    bool       // the slot is taken from a live key
	victim    uint64     // hash of that key
	lost      rule.State // state of that key
	inherited bool
	lazy      bool // the state has not been loaded from the slot yet
	crowded   bool // there is no space for another page
	line      line // a copy of the slot; it has been charged if copied is set
	copied    bool
	counts    []int64     // memory for state.Counts
	holds     []rule.Hold // memory for state.Holds
}

// find claims the slot of the claim's key, if there is one, and loads its state. Two claims of a job never have the same
// key, but could have the same hash by chance.
func (c *claim) find(earlier []claim) {
	c.freed, c.evicts, c.inherited, c.lazy, c.copied = false, false, false, false, false
	for i := range earlier {
		if earlier[i].h == c.h {
			return
		}
	}
	i := find(c.form, c.page, c.h)
	if i < 0 {
		return
	}
	c.slot = i
	c.word = c.form.claim(c.page, i)
	c.ownState()
	if c.lazy = c.isCopied(); !c.lazy {
		c.form.load(c.plan.table, c.page, i, c.word, &c.state)
		c.counts = c.state.Counts
	}
	c.loadHolds()
}

// loadState loads the state that find left in the slot.
func (c *claim) loadState() {
	if c.lazy {
		holds := c.state.Holds
		c.form.load(c.plan.table, c.page, c.slot, c.word, &c.state)
		c.state.Holds, c.lazy = holds, false
	}
}

// open finds a slot for a key that has none, and its initial state: nothing, or what is known of it from before it was
// forgotten.
func (c *claim) open(op rule.Op, needsSlot bool, now rule.Micros) obstacle {
	t := c.plan.table
	c.ownState()
	c.loadHolds()
	if !needsSlot {
		return ready
	}
	c.recallForgotten(now)
	if op == rule.Peek {
		return ready
	}
	switch {
	case c.placeFree(now):
	case !c.crowded && c.page.depth < maxDepth:
		return needSplit
	case t.store.opts.RefuseWhenFull || !c.evict(now):
		return full
	}
	return ready
}

// ownState resets the claim's state to a key never seen, in the claim's own memory.
func (c *claim) ownState() {
	n := c.plan.table.limit.Parts()
	c.counts = slices.Grow(c.counts[:0], n)[:n]
	c.state.Counts = c.counts
	clearState(&c.state)
}

// clearState resets s to the state of a key never seen, keeping its memory.
func clearState(s *rule.State) {
	clear(s.Counts)
	s.Log.Restart(0, 0)
	*s = rule.State{Start: rule.Absent, Counts: s.Counts, Log: s.Log, Slots: s.Slots[:0]}
}

// put stores the claim's state. If that evicts another key, it is remembered first.
func (c *claim) put() {
	t := c.plan.table
	c.putHolds()
	c.state.Holds = nil // they are not in the slot
	if c.evicts {
		t.forget(c.victim, &c.lost, t.store.clock.read())
	}
	if c.form.hash(c.page, c.slot) == unused {
		t.counts.held.Add(1)
	}
	c.page.fullUntil = min(c.page.fullUntil, t.limit.Expires(&c.state))
	c.form.write(t, c.page, c.slot, c.word, c.h, &c.state)
}

// fits reports whether the claim's state still fits the form of its page after the operation. Operations that add no units
// may write a state too, as of now.
func (c *claim) fits(j *job, now rule.Micros) bool {
	var added int64
	switch j.op {
	case rule.Take, rule.TakeUpTo:
		added = min(c.cost, c.plan.limit.Capacity())
	case rule.Charge:
		added = c.cost
	case rule.Settle:
		added = j.charges(c)
	}
	return c.form.fits(&c.state, now, added)
}

// countRecalled marks an answer about a key that was forgotten, or looks like one that was.
func (c *claim) countRecalled(a *rule.Answer) {
	a.Flags |= rule.Inherited
	counts := &c.plan.table.counts
	counts.recalled.Add(1)
	if !a.Allowed {
		counts.refused.Add(1)
	}
}
