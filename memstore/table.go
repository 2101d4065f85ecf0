package memstore

import (
	"iter"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/slidegate/slidegate/internal/shape"
	"github.com/slidegate/slidegate/rule"
	"github.com/slidegate/slidegate/store"
)

// table holds all keys under one limit: one namespace, name and shape. A table for all limits would not know whose keys to
// forget in a flood. Deciding all forms by package rule, under a lock, would need less code and two to four times as long.
//
// It is an extendible hash table: a directory of
// pages, each of which splits in two independently when it is full, so that growing never blocks a request for longer than
// one page takes. When two pages are merged, they keep what fits; see reclaim.go.
//
// Within a page a key is searched from its home slot on, up to the first slot that was never used; slots are reused, but
// never become unused again. An expired key is simply overwritten when its slot is needed: there is no sweep.
//
// If a key has no slot and there is no space to split the page, the least-used key near its home is forgotten and its slot
// reused. Forgotten keys are remembered; see forgotten.go.
type table struct {
	store           *Store
	prefix          string // of the addresses in it
	namespace, name string
	limit           rule.Limit // the limit's shape, to read states whose limit is unknown
	layout          layout     // of a pairForm
	lines           *linesForm // the first form, if its slots take whole lines
	forms           [2]form    // the initial form of pages, and the form after a state did not fit; the second may be nil
	slab            *slab      // for the lines form

	dir     atomic.Pointer[directory]
	special atomic.Bool // some pages have the second form, or are marked as having keys of which units are held
	held    heldPages
	mu      sync.Mutex  // held to change the directory; taken before any page's lock
	at      uint64      // where to search next for pages to merge
	dropped atomic.Bool // it is no longer the table of its limit: look it up in the store again
	use     use

	tags map[rule.Limit]uint32 // what stands for its limits in a journal; guarded by Store.mu
	tag  atomic.Uint32         // one of them

	bytes     atomic.Int64 // bytes of pages, slab and directory
	crowded   atomic.Int32 // how many more keys to forget before requesting more memory
	forgotten atomic.Pointer[forgotten]
	counts    tableCounts
}

// tableCounts are the counters behind metrics.
type tableCounts struct {
	held      atomic.Int64 // slots with a key, which may have expired
	evictions atomic.Int64 // live keys that were forgotten
	recalled  atomic.Int64 // decisions about keys that had been forgotten, or looked like one
	refused   atomic.Int64 // how many of those decisions were refusals
}

// directory maps the first depth bits of a hash to a page.
type directory struct {
	depth uint
	pages []atomic.Pointer[page]
}

const (
	maxDepth = 30 // the directory's bits must not overlap those that choose the home slot
	dirBytes = 8  // bytes per entry
)

// addTable adds the table of a new limit, for which the store must have space. The caller holds s.mu, unless the store is not
// shared yet.
func (s *Store) addTable(bound *store.Limit) *table {
	t := &table{store: s, prefix: bound.Prefix(), namespace: bound.Namespace(), name: bound.Name(), limit: shape.Of(bound.Rule())}
	t.tags = map[rule.Limit]uint32{}
	t.makeForms()
	d := &directory{pages: make([]atomic.Pointer[page], 1)}
	d.pages[0].Store(newPage(0, false))
	t.dir.Store(d)
	t.account(pageBytes + dirBytes)
	s.tables[t.prefix] = t
	return t
}

// makeForms chooses how the states of the table's shape are laid out in pages.
func (t *table) makeForms() {
	pairs := 2
	if t.limit.Algorithm == rule.FixedWindow {
		pairs = 1
	}
	switch {
	case packable(&t.limit):
		t.layout = newLayout(&t.limit, t.store.clock.read())
		t.forms = [2]form{pairForm{pairSlots, t.layout}, tallForm{tallSlots, pairs}}
	case t.limit.Algorithm == rule.FixedWindow || t.limit.Algorithm == rule.SlidingWindow && t.limit.Segments == 1:
		t.forms[0] = tallForm{tallSlots, pairs}
	default:
		t.makeLineForms()
	}
}

func (t *table) makeLineForms() {
	slab := newSlab(t.reserveSlab, t.releaseSlab)
	var first lineForm
	switch t.limit.Algorithm {
	case rule.DefaultAlgorithm:
		t.slab, first = slab, newDefaultForm(slab, &t.limit)
	case rule.SlidingLog:
		t.slab, first = slab, newLogForm(slab, t.limit.Window)
	case rule.InFlight:
		t.slab, first = slab, newSlotsForm(slab, t.limit.Window)
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
	return d.pages[h>>1>>(63-d.depth&63)].Load() // two shifts, because a shift by 64 would need a special case
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

// tenant is a claimed slot of a page that is about to be replaced.
type tenant struct {
	g    *page
	slot int
	word uint64
	h    uint64
	home int // in the new page
	to   int // the slot there, or -1
}

// claimAll claims every slot of a page, and appends those of live keys to others. The caller holds the page's lock.
func (t *table) claimAll(g *page, now rule.Micros, live []tenant) (words []uint64, _ []tenant) {
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

// retire ends a page whose slots are all claimed: it releases what expired keys have elsewhere, and leaves all slots
// claimed.
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

// arrange finds a slot in a new page for every tenant, as close to its home as possible, and reports whether all of them
// got one.
//
// Keys that are placed in the order of their homes, starting where none overflows from before, are no farther from their
// homes than in any other order. So a subset of the keys of one page always fits into another.
func arrange(f form, tenants []tenant) bool {
	n := f.slots()
	if len(tenants) > n {
		return false
	}
	at := make([]int, n) // number of tenants with this home
	for i := range tenants {
		tenants[i].home = f.home(tenants[i].h)
		at[tenants[i].home]++
	}
	// Start where the surplus of keys over slots so far is smallest: there no key overflows to the next slot.
	first, sum, least := 0, 0, 0
	for i := range n {
		if sum += at[i] - 1; sum < least {
			first, least = i+1, sum
		}
	}
	slices.SortFunc(tenants, func(a, b tenant) int { return (a.home-first+n)%n - (b.home-first+n)%n })
	next, all := 0, true // the next free slot, counted from first
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

// moveIn moves tenants to the slots that arrange found, in an unpublished page, which may have another form.
func (t *table) moveIn(to *page, tenants []tenant) {
	f := t.form(to)
	var s rule.State
	for i := range tenants {
		m := &tenants[i]
		if m.g.second == to.second {
			f.copy(m.g, m.slot, m.word, to, m.to)
		} else {
			t.form(m.g).load(t, m.g, m.slot, m.word, &s)
			f.write(t, to, m.to, 0, m.h, &s)
		}
		t.counts.held.Add(1)
	}
}

// split replaces the page of h by two pages of the same form, and reports whether it, or another request, did. The store
// must have reserved a page.
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
	words, live := t.claimAll(old, now, nil)
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
			panic("memstore: a subset of a page does not fit into another page")
		}
		t.moveIn(halves[bit], part)
	}
	t.moveHolds(old, now, func(h uint64) *page { return halves[h>>(63-old.depth)&1] })
	t.retire(old, words, now)
	t.publish(h, 0, halves[0])
	t.publish(h, 1, halves[1])
	return true
}

// toSecondForm rewrites the page of h in the second form, because a state did not fit into the first. If the second form
// has fewer slots than there are keys, the page is split first.
func (t *table) toSecondForm(old *page, h uint64) {
	if !t.rewrite(old, h, false) {
		t.account(pageBytes) // even beyond the bound; see trim
		t.split(old, h)
	}
}

// rewrite replaces the page of h by a marked one (see holds.go), or by one of the second form, unless it is one already. It
// reports false if the keys do not fit into the new page.
func (t *table) rewrite(old *page, h uint64, mark bool) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	old.mu.Lock()
	defer old.mu.Unlock()
	if old.dead || mark && old.held || !mark && old.second {
		return true
	}
	now := t.store.clock.read()
	words, live := t.claimAll(old, now, nil)
	to := newPage(old.depth, old.second || !mark)
	if !arrange(t.form(to), live) {
		t.releaseAll(old, words)
		return false
	}
	if mark {
		t.held.mark(to)
	}
	t.moveIn(to, live)
	t.moveHolds(old, now, func(uint64) *page { return to })
	t.special.Store(true) // before the page is published
	t.retire(old, words, now)
	t.publish(h, lastBit(h, old.depth), to)
	return true
}

// lastBit returns the last bit of the prefix that a hash shares with the other keys of its page.
func lastBit(h uint64, depth uint8) uint64 {
	if depth == 0 {
		return 0
	}
	return h >> (64 - depth) & 1
}

// publish puts a new page into the directory: at h's own prefix, or at its sibling's, according to the last bit. The caller
// holds t.mu. Concurrent readers of the directory find the old page, in which every slot is claimed, and retry.
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
