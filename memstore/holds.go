package memstore

import (
	"slices"
	"sync"
	"unsafe"

	"github.com/slidegate/slidegate/rule"
)

// What reservations hold of a key is kept beside the pages, by the hash of the key, so a key that loses its slot does not lose it. A page
// with such keys is marked. All decisions about its keys take the page's lock, since those without it do not know what is held. The mark
// never changes: a page is replaced by a marked one before units of its keys are held, so that a decision which has begun without the
// lock cannot be completed. A page that replaces marked ones is marked only if it has keys of which something is held.

// heldKeys has what is held of the keys of a page. It is guarded by the page's lock.
type heldKeys map[uint64][]rule.Hold

// heldPages has the marked pages of a table.
type heldPages struct {
	mu    sync.Mutex
	pages map[*page]heldKeys
}

const (
	holdBytes    = int64(unsafe.Sizeof(rule.Hold{}))
	heldKeyBytes = 64 // approximate size of a key in a map, without its holds
	heldShare    = 4  // in sixteenths of MaxBytes, out of the share of keys

	// sweepHoldsAfter is the minimum time between two searches for holds that have ended.
	sweepHoldsAfter = rule.Micros(1_000_000)
	// holdsFullAfter is the RetryAfter of a request to hold units for which there is no memory: it is not known when there will be.
	holdsFullAfter = rule.Micros(1_000_000)
)

// of returns what is held of the keys of a page; nil if it is not marked.
func (p *heldPages) of(g *page) heldKeys {
	if !g.held {
		return nil
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.pages[g]
}

// mark marks a page that is not published yet.
func (p *heldPages) mark(g *page) heldKeys {
	if g.held {
		return p.of(g)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.pages == nil {
		p.pages = map[*page]heldKeys{}
	}
	keys := heldKeys{}
	p.pages[g], g.held = keys, true
	return keys
}

// all returns the marked pages.
func (p *heldPages) all() (pages []*page) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for g := range p.pages {
		pages = append(pages, g)
	}
	return pages
}

// heldBytesOf returns how much memory the holds of a key take.
func heldBytesOf(holds []rule.Hold) int64 {
	if holds == nil {
		return 0
	}
	return heldKeyBytes + holdBytes*int64(cap(holds))
}

// accountHolds adds to the memory of holds.
func (t *table) accountHolds(n int64) {
	t.account(n)
	t.store.heldBytes.Add(n)
}

// openUntil returns when the last of some holds ends, 0 if all of them have.
func openUntil(holds []rule.Hold, now rule.Micros) (last rule.Micros) {
	for i := range holds {
		if holds[i].Ends > now {
			last = max(last, holds[i].Ends)
		}
	}
	return last
}

// save replaces what is held of a key. The caller holds the lock of its page.
func (t *table) saveHolds(keys heldKeys, h uint64, holds []rule.Hold) {
	before := keys[h]
	if slices.Equal(before, holds) {
		return
	}
	after := append(before[:0], holds...)
	switch {
	case len(holds) == 0:
		delete(keys, h)
		after = nil
	case cap(after) > 2*len(after)+8: // it once held many more
		after = slices.Clone(holds)
		fallthrough
	default:
		keys[h] = after
	}
	t.accountHolds(heldBytesOf(after) - heldBytesOf(before))
}

// moveHolds moves what is held of the keys of a page to the pages that replace it, which are not published yet. It leaves out what has
// ended. The caller holds the lock of the page.
func (t *table) moveHolds(old *page, now rule.Micros, to func(h uint64) *page) {
	keys := t.held.of(old)
	if keys == nil {
		return
	}
	for h, holds := range keys {
		if openUntil(holds, now) == 0 {
			t.accountHolds(-heldBytesOf(holds))
			continue
		}
		t.held.mark(to(h))[h] = holds
		t.special.Store(true) // before the page is published
	}
	t.dropHolds(old)
}

// dropHolds removes a page that is replaced from the marked ones.
func (t *table) dropHolds(g *page) {
	t.held.mu.Lock()
	defer t.held.mu.Unlock()
	delete(t.held.pages, g)
}

// toHeld replaces the page of h by a marked one.
func (t *table) toHeld(old *page, h uint64) {
	if !t.rewrite(old, h, true) {
		panic("memstore: the keys of a page do not fit into another page")
	}
}

// heldUntil returns when the last hold of the table ends, 0 if there is none. The caller holds t.mu, or the locks of all pages.
func (t *table) heldUntil(now rule.Micros, locked bool) (last rule.Micros) {
	for _, g := range t.held.all() {
		if !locked {
			g.mu.Lock()
		}
		for _, holds := range t.held.of(g) {
			last = max(last, openUntil(holds, now))
		}
		if !locked {
			g.mu.Unlock()
		}
	}
	return last
}

// sweepHolds releases the memory of holds that have ended, but not often. The caller holds no lock.
func (s *Store) sweepHolds() {
	now := s.clock.read()
	if next := rule.Micros(s.sweepAt.Load()); now < next && now > next-2*sweepHoldsAfter || !s.sweeping.TryLock() {
		return
	}
	defer s.sweeping.Unlock()
	s.mu.Lock()
	tables := make([]*table, 0, len(s.tables))
	for _, t := range s.tables {
		tables = append(tables, t)
	}
	s.mu.Unlock()
	for _, t := range tables {
		for _, g := range t.held.all() {
			t.sweepPage(g, now)
		}
	}
	s.sweepAt.Store(int64(now + sweepHoldsAfter))
}

func (t *table) sweepPage(g *page, now rule.Micros) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.dead {
		return
	}
	keys := t.held.of(g)
	for h, holds := range keys {
		if openUntil(holds, now) == 0 {
			t.accountHolds(-heldBytesOf(holds))
			delete(keys, h)
		}
	}
}

// holdsUnits reports whether the job may hold units of the claim's key.
func (j *job) holdsUnits(c *claim) bool {
	return j.hold && j.op == rule.Take && c.plan.limit.Hold > 0 && c.cost > 0
}

// loadHolds loads what is held of the claim's key, into memory of the claim's own.
func (c *claim) loadHolds() {
	if keys := c.plan.table.held.of(c.page); keys != nil {
		c.holds = append(c.holds[:0], keys[c.h]...)
		c.state.Holds = c.holds
	}
}

// putHolds saves what is held of the claim's key.
func (c *claim) putHolds() {
	if keys := c.plan.table.held.of(c.page); keys != nil {
		c.plan.table.saveHolds(keys, c.h, c.state.Holds)
		c.holds = c.state.Holds[:0]
	}
}

// openHolds returns what must be done before the job can hold units.
func (j *job) openHolds() (what obstacle, in *claim) {
	for i := range j.claims {
		if c := &j.claims[i]; j.holdsUnits(c) && !c.page.held {
			return needHeld, c
		}
	}
	if !j.swept && !j.hasMemoryToHold() {
		return needSweep, &j.claims[0]
	}
	return ready, nil
}

// hasMemoryToHold reports whether there is memory for what the job is to hold. What its ID holds already takes none.
func (j *job) hasMemoryToHold() bool {
	var want int64
	for i := range j.claims {
		if c := &j.claims[i]; j.holdsUnits(c) && !slices.ContainsFunc(c.state.Holds, func(h rule.Hold) bool { return h.ID == j.id }) {
			want += heldKeyBytes + holdBytes*int64(max(1, len(c.state.Holds)))
		}
	}
	s := j.store
	if want == 0 {
		return true
	}
	if s.opts.RefuseWhenFull && s.used.Load()+want > s.capacity {
		return false
	}
	return s.heldBytes.Load()+want <= s.opts.MaxBytes/16*heldShare
}

// refuseHolds answers a request to hold units for which there is no memory.
func (j *job) refuseHolds(now rule.Micros, answers []rule.Answer) {
	rule.Decide(rule.Peek, j.items, now, answers)
	for i := range j.claims {
		if a := &answers[i]; a.Allowed && j.holdsUnits(&j.claims[i]) {
			a.Allowed, a.NextAfter, a.RetryAfter = false, 0, holdsFullAfter
			a.Flags |= rule.Held | rule.HoldsFull
		}
	}
}
