package memstore

import (
	"cmp"
	"slices"
	"sync/atomic"

	"github.com/slidegate/slidegate/rule"
)

// The store's memory is bounded in bytes, and shared by its tables. A table that needs a page when there is none left takes
// one from another table: first from one whose keys have expired, then from the largest, if that is larger than itself. So
// a flood of keys on one limit takes all the memory, and gives it back when another limit needs it, down to an equal share;
// the keys that it loses are remembered by its own forgotten memory.

// How the bytes of a store are divided.
const (
	keyShare        = 8 // in sixteenths: pages, directories and slabs
	forgottenShare  = 6 // traces of forgotten keys
	settlementShare = 2 // settlements of reservations

	settlementBytes = 128 // approximate size of a settlement
)

const (
	// rescanAfter is the minimum time between two fruitless scans of a table.
	rescanAfter = rule.Micros(100_000)
	// scanPages is how many pages of a table are scanned at a time.
	scanPages = 64
	// crowdedFor is how many keys a table forgets before it requests more memory again, after it was given none.
	crowdedFor = 256
	// slack is by how many bytes a table must be larger than another before it gives up a page.
	slack = 2 * pageBytes
)

// account adds to the bytes of the table.
func (t *table) account(n int64) {
	t.bytes.Add(n)
	t.store.used.Add(n)
}

// reserve reserves n bytes for the table if the bound allows it.
func (t *table) reserve(n int64) bool {
	s := t.store
	if s.opts.RefuseWhenFull { // no table can be made to give up memory then, so none gets all of it
		others := s.used.Load() - t.bytes.Load()
		if t.bytes.Load()+n > (s.capacity-others)/8*7 {
			return false
		}
	}
	if s.used.Add(n) > s.capacity {
		s.used.Add(-n)
		return false
	}
	t.bytes.Add(n)
	return true
}

// reserveSlab is reserve for the table's slab. It takes nothing from other tables, because a slot is busy. If must is set,
// it takes the memory in any case; see trim.
func (t *table) reserveSlab(n int64, must bool) bool {
	if must {
		t.account(n)
		return true
	}
	return t.reserve(n)
}

func (t *table) releaseSlab(n int64) { t.account(-n) }

// reservePage reserves a page for the table, taken from another table if necessary. The caller holds no lock.
func (t *table) reservePage() bool {
	if t.crowded.Load() > 0 && t.crowded.Add(-1) > 0 {
		return false
	}
	for !t.reserve(pageBytes) {
		if !t.store.reclaim(t) {
			t.crowded.Store(crowdedFor)
			return false
		}
	}
	return true
}

// reclaim makes another table give up a page, if one should.
func (s *Store) reclaim(to *table) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.clock.read()
	var largest *table
	for _, t := range s.tables {
		if f := t.forgotten.Load(); f != nil {
			f.expire(now)
		}
		if t == to {
			continue
		}
		if now >= t.use.scanned+rescanAfter || now < t.use.scanned {
			if t.shrink(now, false) {
				return true
			}
		}
		if largest == nil || t.bytes.Load() > largest.bytes.Load() {
			largest = t
		}
	}
	if largest == nil || s.opts.RefuseWhenFull || largest.bytes.Load() < to.bytes.Load()*9/8+slack {
		return false
	}
	return largest.shrink(now, true)
}

// shrink merges two pages and reports whether it did. Without force it does so only if all live keys fit into one. The
// caller holds the store's lock.
func (t *table) shrink(now rule.Micros, force bool) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.dropped.Load() {
		return false
	}
	for range scanPages {
		g := t.page(t.at)
		if g.depth == 0 {
			break
		}
		size := uint64(1) << (64 - g.depth)
		at := t.at &^ (size - 1)
		t.at = at + size
		buddy := t.page(at ^ size)
		if buddy.depth == g.depth && (force || t.liveIn(g, now)+t.liveIn(buddy, now) <= t.form(g).slots()*3/4) && t.merge(g, buddy, at&^size, now, force) {
			if t.slab != nil {
				t.slab.trim()
			}
			return true
		}
		if t.at == 0 && !force { // every page has been visited
			t.use.scanned = now
			break
		}
	}
	return false
}

// liveIn returns how many keys of a page are live, or were live a moment ago.
func (t *table) liveIn(g *page, now rule.Micros) (n int) {
	f := t.form(g)
	for i := range f.slots() {
		if f.hash(g, i) != unused && f.expires(t, g, i, f.peek(g, i)) > now {
			n++
		}
	}
	return n
}

// merge merges two pages that differ in the last bit of their prefix. Keys that do not fit are forgotten if force is set;
// otherwise nothing is done. The caller holds t.mu.
func (t *table) merge(a, b *page, first uint64, now rule.Micros, force bool) bool {
	lockBoth(a, b)
	defer a.mu.Unlock()
	defer b.mu.Unlock()
	wordsA, live := t.claimAll(a, now, nil)
	wordsB, live := t.claimAll(b, now, live)
	to := newPage(a.depth-1, a.second || b.second)
	fits := a.second == b.second && arrange(t.form(to), live)
	if !fits && !force {
		t.releaseAll(a, wordsA)
		t.releaseAll(b, wordsB)
		return false
	}
	if !fits {
		live = t.forgetSome(to, live, now)
	}
	t.moveIn(to, live)
	for _, g := range []*page{a, b} {
		t.moveHolds(g, now, func(uint64) *page { return to })
	}
	t.retire(a, wordsA, now)
	t.retire(b, wordsB, now)
	t.publish(first, first>>(64-to.depth)&1, to)
	t.narrow()
	t.account(-pageBytes)
	return true
}

// forgetSome forgets the least-used tenants until the others fit into a page.
func (t *table) forgetSome(to *page, live []tenant, now rule.Micros) []tenant {
	f := t.form(to)
	weight := make(map[uint64]int64, len(live))
	for _, m := range live {
		weight[m.h] = t.form(m.g).weight(t, m.g, m.slot, m.word, now)
	}
	slices.SortFunc(live, func(a, b tenant) int { return cmp.Compare(weight[b.h], weight[a.h]) })
	most := f.slots() * 7 / 8
	stay := live[:min(most, len(live))]
	for _, m := range live[len(stay):] {
		t.forgetTenant(m, now)
	}
	arrange(f, stay)
	return slices.DeleteFunc(stay, func(m tenant) bool {
		if m.to < 0 {
			t.forgetTenant(m, now)
		}
		return m.to < 0
	})
}

// forgetTenant remembers a live key that is about to lose its slot, and releases the memory that it has elsewhere.
func (t *table) forgetTenant(m tenant, now rule.Micros) {
	t.forgetSlot(m.g, m.slot, m.word, m.h, now)
	t.form(m.g).free(t, m.g, m.slot, m.word)
}

// forgetSlot records and remembers the live key of a claimed slot, which it loses for another reason than a request for its space.
func (t *table) forgetSlot(g *page, i int, w, h uint64, now rule.Micros) {
	var s rule.State
	t.form(g).load(t, g, i, w, &s)
	t.recordForgotten(h, &s, now)
	t.forget(h, &s, now)
}

// narrow halves the directory while no page needs its last bit. The caller holds t.mu.
func (t *table) narrow() {
	for d := t.dir.Load(); d.depth > 0; d = t.dir.Load() {
		for i := 0; i < len(d.pages); i += 2 {
			if uint(d.pages[i].Load().depth) == d.depth {
				return
			}
		}
		half := &directory{depth: d.depth - 1, pages: make([]atomic.Pointer[page], len(d.pages)/2)}
		for i := range half.pages {
			half.pages[i].Store(d.pages[2*i].Load())
		}
		t.account(-int64(len(half.pages)) * dirBytes)
		t.dir.Store(half)
	}
}

// trim brings the store back under its bound, after something was stored that had to be. The caller holds no lock.
func (t *table) trim() {
	s := t.store
	for range 64 {
		if s.used.Load() <= s.capacity || s.opts.RefuseWhenFull {
			return
		}
		if s.reclaim(t) {
			continue
		}
		if now := s.clock.read(); !s.shrink(t, now) && !t.forgetOne(now) {
			return
		}
	}
}

// shrink makes a table give up a page, and reports whether it did.
func (s *Store) shrink(t *table, now rule.Micros) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return t.shrink(now, true)
}

// isOverfull reports whether the table must not store longer states, because no key may be forgotten for them.
func (t *table) isOverfull() bool {
	s := t.store
	return s.opts.RefuseWhenFull && t.slab != nil && s.used.Load() > s.capacity
}

// forgetOne forgets the least-used key of a table that has a single page, and reports whether it did. The last key stays.
func (t *table) forgetOne(now rule.Micros) bool {
	g := t.page(0)
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.dead {
		return true
	}
	f := t.form(g)
	best, least, live := -1, int64(0), 0
	for i := range f.slots() {
		w, ok := f.tryClaim(g, i)
		if !ok {
			continue
		}
		if f.hash(g, i) != unused && f.expires(t, g, i, w) > now {
			live++
			if weight := f.weight(t, g, i, w, now); best < 0 || weight < least {
				best, least = i, weight
			}
		}
		f.release(g, i, w)
	}
	if live < 2 {
		return false
	}
	w, h := f.claim(g, best), f.hash(g, best)
	t.forgetSlot(g, best, w, h, now)
	t.vacate(g, best, w, h)
	return true
}

// vacate gives the claimed slot of a key that was forgotten to a hash next to it, with the state of a key never seen: a slot with the key
// itself would hide what is remembered of it.
func (t *table) vacate(g *page, i int, w, h uint64) {
	s := rule.State{Counts: make([]int64, t.limit.Parts())}
	clearState(&s)
	g.fullUntil = 0
	t.form(g).write(t, g, i, w, max(h^1, reserved+1), &s)
}
