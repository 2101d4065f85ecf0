package memstore

import (
	"iter"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/slidegate/slidegate/rule"
)

// table holds all keys under one limit: one namespace, name and shape. It is an extendible hash table: a directory of pages, of
// which each splits in two by itself when it is full, so that growing never stops anybody for longer than one page takes. Two
// pages that have become one keep what fits; see room.go.
//
// Within a page a key is looked for from its home slot on, up to the first slot that was never used; slots are used again, but
// never become unused. A key that has expired is simply overwritten when its place is wanted: there is no sweep.
//
// When a key finds no place and there is no room to split, the least-used key near its home is forgotten and its place given
// away. What is forgotten is remembered by key; see forgotten.go.
type table struct {
	store  *Store
	id     tableID
	shape  rule.Shape
	limit  rule.Limit // of this shape, to read states by whose limit is not known
	layout layout     // of a pairForm
	lines  *linesForm // the first form, if its slots take whole lines
	forms  [2]form    // what pages have at first, and what they have after a state that does not fit; the second may be nil
	slab   *slab      // of the lines form

	dir     atomic.Pointer[directory]
	mixed   atomic.Bool // there are pages of the second form
	mu      sync.Mutex  // held to change the directory; taken before any page's lock
	at      uint64      // where to look next for pages that can become one
	dropped atomic.Bool // it is no longer the table of its limit: ask the store for that again
	use     use

	bytes     atomic.Int64 // of pages, slab and directory
	crowded   atomic.Int32 // how often a key must still be forgotten before asking for more room makes sense
	forgotten atomic.Pointer[forgotten]
	legacy    *legacy // what a snapshot of an earlier version holds of the limit's shape
	counts    tableCounts
}

// tableID names a table.
type tableID struct {
	prefix    string // of the addresses in it
	namespace string
	name      string
}

// tableCounts is what metrics are made of.
type tableCounts struct {
	held      atomic.Int64 // slots that have a key, which may have expired
	evictions atomic.Int64 // live keys that were forgotten
	recalled  atomic.Int64 // decisions about keys that had been, or looked like one that had been
	refused   atomic.Int64 // those of them that were refused
}

// directory finds a page by the first depth bits of a hash.
type directory struct {
	depth uint
	pages []atomic.Pointer[page]
}

const (
	maxDepth = 30 // the directory's bits must not meet those that choose the home slot
	dirBytes = 8  // of an entry
)

// newTable returns an empty table, which the store has room for.
func newTable(s *Store, id tableID, shape rule.Shape) *table {
	t := &table{store: s, id: id, shape: shape, limit: shape.Limit(), legacy: s.legacy[shape]}
	t.makeForms()
	d := &directory{pages: make([]atomic.Pointer[page], 1)}
	d.pages[0].Store(newPage(0, false))
	t.dir.Store(d)
	t.account(pageBytes + dirBytes)
	return t
}

// makeForms chooses how the states of the table's shape lie in pages.
func (t *table) makeForms() {
	pairs := 2
	if t.shape.Algorithm == rule.FixedWindow {
		pairs = 1
	}
	switch {
	case packable(t.shape):
		t.layout = newLayout(&t.limit, t.store.clock.read())
		t.forms = [2]form{pairForm{t.layout}, tallForm{pairs}}
	case t.shape.Algorithm == rule.FixedWindow || t.shape.Algorithm == rule.SlidingWindow && t.shape.Segments == 1:
		t.forms[0] = tallForm{pairs}
	default:
		t.makeLineForms()
	}
}

func (t *table) makeLineForms() {
	var first lineForm
	switch t.shape.Algorithm {
	case rule.SlidingLog:
		t.slab = newSlab(t.reserveSlab, t.releaseSlab)
		first = newLogForm(t.slab, t.shape.Window)
	case rule.InFlight:
		t.slab = newSlab(t.reserveSlab, t.releaseSlab)
		first = newSlotsForm(t.slab, t.shape.Window)
	case rule.TokenBucket:
		first = newBucketForm(&t.limit)
	default:
		first = newPartsForm(&t.limit, false)
		t.forms[1] = newLinesForm(newPartsForm(&t.limit, true))
	}
	t.lines = newLinesForm(first)
	t.forms[0] = t.lines
}

// form returns the form of a page.
func (t *table) form(g *page) form {
	if g.second {
		return t.forms[1]
	}
	return t.forms[0]
}

// page returns the page that a hash belongs to.
func (t *table) page(h uint64) *page {
	d := t.dir.Load()
	return d.pages[h>>1>>(63-d.depth&63)].Load() // two shifts: one by 64 would have to be told apart
}

// pages yields every page once, with the first hash that belongs to it. The caller holds t.mu.
func (t *table) pages() iter.Seq2[uint64, *page] {
	return func(yield func(uint64, *page) bool) {
		for at := uint64(0); ; {
			g := t.page(at)
			if !yield(at, g) || g.depth == 0 {
				return
			}
			if at += 1 << (64 - g.depth); at == 0 {
				return
			}
		}
	}
}

// tenant is a slot of a page that is about to be replaced, claimed.
type tenant struct {
	g    *page
	slot int
	word uint64
	h    uint64
	home int // in the new page
	to   int // the slot there, or -1
}

// claimAll claims every slot of a page, and returns those of live keys. The caller holds the page's lock.
func (t *table) claimAll(g *page, now rule.Micros, words []uint64, live []tenant) ([]uint64, []tenant) {
	f := t.form(g)
	for i := range f.slots() {
		w := f.claim(g, i)
		words = append(words, w)
		if h := f.hash(g, i); h != unused && f.expires(t, g, i, w) > now {
			live = append(live, tenant{g: g, slot: i, word: w, h: h})
		}
	}
	return words, live
}

// releaseAll undoes claimAll.
func (t *table) releaseAll(g *page, words []uint64) {
	f := t.form(g)
	for i, w := range words {
		f.release(g, i, w)
	}
}

// retire ends a page all of whose slots are claimed: what expired keys have elsewhere is given back, and all slots stay claimed.
func (t *table) retire(g *page, words []uint64, now rule.Micros) {
	f := t.form(g)
	for i, w := range words {
		if f.hash(g, i) != unused {
			t.counts.held.Add(-1)
			if f.expires(t, g, i, w) <= now {
				f.free(t, g, i, w)
			}
		}
		f.bury(g, i)
	}
	g.dead = true
}

// arrange finds a slot of a new page for every tenant, as near to its home as can be, and reports whether there is one for all.
//
// Keys that are placed in the order of their homes, beginning where none comes from before, reach no farther than in any other
// order. So a part of what fitted a page fits another.
func arrange(f form, tenants []tenant) bool {
	n := f.slots()
	if len(tenants) > n {
		return false
	}
	at := make([]int, n) // how many have their home there
	for i := range tenants {
		tenants[i].home = f.home(tenants[i].h)
		at[tenants[i].home]++
	}
	// Where the fewest more keys than slots have come by, nobody is left over who would have to go on.
	first, sum, least := 0, 0, 0
	for i := range n {
		if sum += at[i] - 1; sum < least {
			first, least = i+1, sum
		}
	}
	slices.SortFunc(tenants, func(a, b tenant) int { return (a.home-first+n)%n - (b.home-first+n)%n })
	next, all := 0, true // the next free place, counted from first
	for i := range tenants {
		home := (tenants[i].home - first + n) % n
		next = max(next, home)
		if tenants[i].to = (first + next) % n; next-home >= f.reach() || next >= n {
			tenants[i].to, all = -1, false
			continue
		}
		next++
	}
	return all
}

// moveIn copies tenants of the same form to the places that arrange found in a page nobody knows yet.
func (t *table) moveIn(to *page, tenants []tenant) {
	f := t.form(to)
	for i := range tenants {
		if m := &tenants[i]; m.to >= 0 {
			f.copy(m.g, m.slot, m.word, to, m.to)
			t.counts.held.Add(1)
		}
	}
}

// split replaces the page of h by two of the same form, and reports whether it, or somebody else, did. The store must have had
// room for a page.
func (t *table) split(old *page, h uint64) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	old.mu.Lock()
	defer old.mu.Unlock()
	if old.dead || old.depth >= maxDepth {
		t.account(-pageBytes)
		return old.dead
	}
	now := t.store.clock.read()
	words, live := t.claimAll(old, now, nil, nil)
	var halves [2]*page
	for bit := range halves {
		halves[bit] = newPage(old.depth+1, old.second)
		var part []tenant
		for _, m := range live {
			if m.h>>(63-old.depth)&1 == uint64(bit) {
				part = append(part, m)
			}
		}
		if !arrange(t.form(old), part) {
			panic("memstore: a part of what fitted a page does not fit another")
		}
		t.moveIn(halves[bit], part)
	}
	t.retire(old, words, now)
	t.publish(h, 0, halves[0])
	t.publish(h, 1, halves[1])
	return true
}

// heighten rewrites the page of h in the second form, in which a state fits that did not. If that has fewer slots than there are
// keys, the page is split first.
func (t *table) heighten(old *page, h uint64) {
	if !t.rewrite(old, h) {
		t.account(pageBytes) // beyond the bound if need be; see trim
		t.split(old, h)
	}
}

func (t *table) rewrite(old *page, h uint64) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	old.mu.Lock()
	defer old.mu.Unlock()
	if old.dead || old.second {
		return true
	}
	now := t.store.clock.read()
	words, live := t.claimAll(old, now, nil, nil)
	if !arrange(t.forms[1], live) {
		t.releaseAll(old, words)
		return false
	}
	to := newPage(old.depth, true)
	var s rule.State
	for i := range live {
		m := &live[i]
		t.forms[0].load(t, old, m.slot, m.word, &s)
		t.forms[1].write(t, to, m.to, 0, m.h, &s)
		t.counts.held.Add(1)
	}
	t.mixed.Store(true) // before anybody can find the page
	t.retire(old, words, now)
	bit := uint64(0)
	if old.depth > 0 {
		bit = h >> (64 - old.depth) & 1
	}
	t.publish(h, bit, to)
	return true
}

// publish lets a new page be found: the one that h is in, or its sibling, as the last bit of its prefix has it. It
// holds t.mu. Who reads the directory meanwhile finds the old page, where every slot is claimed, and comes back.
func (t *table) publish(h, bit uint64, to *page) {
	depth := uint(to.depth)
	d := t.dir.Load()
	if depth > d.depth {
		wider := &directory{depth: d.depth + 1, pages: make([]atomic.Pointer[page], 2*len(d.pages))}
		for i := range wider.pages {
			wider.pages[i].Store(d.pages[i/2].Load())
		}
		t.account(int64(len(d.pages)) * dirBytes)
		t.dir.Store(wider)
		d = wider
	}
	first := uint64(0)
	if depth > 0 {
		first = (h>>(64-depth)&^1 | bit) << (d.depth - depth)
	}
	for i := range uint64(1) << (d.depth - depth) {
		d.pages[first+i].Store(to)
	}
}
