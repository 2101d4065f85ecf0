package memstore

import (
	"sync"
	"sync/atomic"

	"github.com/slidegate/slidegate/rule"
)

// table holds all keys under limits of one shape. It is an extendible hash table: a directory of segments, of which
// each splits in two by itself when it is full, so that growing never stops anybody for longer than one segment takes.
//
// Within a segment a key belongs to one set of slots. It is looked for from its home slot on, round the set, up to the
// first slot that was never used; slots are used again, but never become unused. A key that has expired is simply
// overwritten when its place is wanted: there is no sweep.
//
// When a set is full of live keys and there is no room to split, the least-used key is forgotten and its place given
// away. What is forgotten is kept in one slot of the set, its floor: a state that is nowhere below any forgotten one. A
// key that is not found begins with the floor, so forgetting can only ever refuse.
type table struct {
	store  *Store
	shape  rule.Shape
	limit  rule.Limit // of this shape, to read states by whose limit is not known
	layout layout
	sets   int // in a segment
	stride int // words in a slot of the wide form

	dir     atomic.Pointer[directory]
	mu      sync.Mutex  // held to change the directory; taken before any segment's lock
	dropped atomic.Bool // it is no longer the table of its shape: ask the store for that again
	use     use
}

// directory finds a segment by the first depth bits of a hash.
type directory struct {
	depth   uint
	entries []entry
}

// entry points to a segment in one of its forms; the other pointers are nil.
type entry struct {
	packed atomic.Pointer[packedSegment]
	tall   atomic.Pointer[tallSegment]
	wide   atomic.Pointer[wideSegment]
}

// segment is what all forms can do under their lock. Slots are numbered through all sets of the segment. A claimed slot
// is kept for one claim, with the state it held in claim.state, until put or release.
type segment interface {
	header() *segmentHeader
	// hash returns whose slot i is.
	hash(i int) uint64
	// read copies the state in slot i of a key or a floor; it returns false if the slot is claimed.
	read(t *table, i int, s *rule.State) bool
	// claim claims slot i, which is used and not claimed.
	claim(t *table, i int, c *claim)
	// claimFree claims slot i if it is unused, or has expired and is not claimed.
	claimFree(t *table, i int, now rule.Micros, c *claim) bool
	// put gives a claimed slot to h, with claim.state.
	put(t *table, i int, h uint64, c *claim)
	// release leaves a claimed slot as it was.
	release(i int, c *claim)
	// set gives slot i to h, or makes it a floor. It is claimed until now, or it is a floor, or nobody knows the segment yet.
	set(t *table, i int, h uint64, s *rule.State)
	// drain moves the state out of slot i of a segment that is about to be replaced. The slot stays claimed for ever.
	drain(t *table, i int, s *rule.State)
}

// segmentHeader is what all forms of a segment have in common.
type segmentHeader struct {
	mu     sync.Mutex
	dead   bool // it has been split or rewritten: look the hash up again
	depth  uint8
	floors uint32 // which sets have a floor
	order  uint64 // several segments are locked in this order
}

// Reserved hashes.
const (
	unused    = uint64(0) // a slot that was never used: what is looked for is not behind it
	floorHash = uint64(1) // the floor of a set
	reserved  = uint64(2) // the hashes of keys begin here
)

const (
	setSlots     = 32
	packedSets   = 31 // with the header, 16 KB: what the allocator hands out without waste
	segmentBytes = 16 << 10
	maxDepth     = 28 // the directory's bits must not meet those that choose the set and the home slot
)

// segmentOrder numbers segments as they are made.
var segmentOrder atomic.Uint64

// newTable returns an empty table.
func newTable(s *Store, shape rule.Shape) *table {
	t := describeTable(s, shape)
	d := &directory{entries: make([]entry, 1)}
	if packable(shape) {
		d.entries[0].point(newPackedSegment(0))
	} else {
		d.entries[0].point(newWideSegment(t, 0))
	}
	t.dir.Store(d)
	s.slots.Add(t.segmentSlots())
	return t
}

// describeTable returns a table without segments.
func describeTable(s *Store, shape rule.Shape) *table {
	t := &table{store: s, shape: shape, limit: shape.Limit()}
	t.stride = 1 + t.limit.Parts()
	switch shape.Algorithm {
	case rule.TokenBucket:
		t.stride = 4
	case rule.InFlight:
		t.stride = 0 // all there is is in held
	}
	t.sets = max(1, min(packedSets, segmentBytes/(setSlots*8*(t.stride+1))))
	if packable(shape) {
		t.sets = packedSets
		t.layout = newLayout(&t.limit, s.now())
	}
	return t
}

func (t *table) segmentSlots() int64 { return int64(t.sets) * setSlots }

func (t *table) entry(h uint64) *entry {
	d := t.dir.Load()
	return &d.entries[h>>1>>(63-d.depth&63)] // two shifts: one by 64 would have to be told apart
}

// segment returns the segment that a hash belongs to, in any form.
func (t *table) segment(h uint64) segment {
	e := t.entry(h)
	if g := e.packed.Load(); g != nil {
		return g
	}
	if g := e.tall.Load(); g != nil {
		return g
	}
	return e.wide.Load()
}

// point makes e point to a segment. The new pointer is there before the old one goes.
func (e *entry) point(to segment) {
	switch to := to.(type) {
	case *packedSegment:
		e.packed.Store(to)
	case *tallSegment:
		e.tall.Store(to)
		e.packed.Store(nil)
	case *wideSegment:
		e.wide.Store(to)
	}
}

// setOf returns which set of its segment a hash belongs to, and its home slot there: the first of a cache line.
func setOf(h uint64, sets int) (set, home uint) {
	return uint(uint64(uint32(h)) * uint64(sets) >> 32), uint(h>>32) & (setSlots - 4)
}

// canSplit reports whether the bound on keys leaves room for one more segment. With five slots for two keys, a set is
// hardly ever full before the store is.
func (t *table) canSplit(depth uint8) bool {
	return depth < maxDepth && t.store.slots.Load()+t.segmentSlots() <= int64(t.store.opts.MaxKeys)*5/2
}

// split replaces the segment of h by two of the same form, unless somebody else did, or the bound on keys was reached.
func (t *table) split(old segment, h uint64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	head := old.header()
	head.mu.Lock()
	defer head.mu.Unlock()
	if head.dead || !t.canSplit(head.depth) {
		return
	}
	t.store.slots.Add(t.segmentSlots())
	var halves [2]segment
	for i := range halves {
		switch depth := head.depth + 1; old.(type) {
		case *packedSegment:
			halves[i] = newPackedSegment(depth)
		case *tallSegment:
			halves[i] = newTallSegment(depth)
		case *wideSegment:
			halves[i] = newWideSegment(t, depth)
		}
	}
	t.move(old, halves)
	t.publish(h, 0, halves[0])
	t.publish(h, 1, halves[1])
}

// heighten rewrites a packed segment in the tall form: it met a state that cannot be packed.
func (t *table) heighten(old *packedSegment, h uint64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	old.mu.Lock()
	defer old.mu.Unlock()
	if old.dead {
		return
	}
	g := newTallSegment(old.depth)
	t.move(old, [2]segment{g, g})
	t.publish(h, h>>(64-old.depth)&1, g)
}

// move moves all live keys of a segment that is locked to new ones, by the next bit of their hashes. It leaves the old
// one dead.
func (t *table) move(old segment, to [2]segment) {
	head, now := old.header(), t.store.now()
	s := rule.State{Counts: make([]int64, t.limit.Parts())}
	for i := range t.sets * setSlots {
		h := old.hash(i)
		old.drain(t, i, &s)
		if h == unused || t.limit.Expires(&s) <= now {
			continue
		}
		set := i / setSlots
		if h == floorHash {
			t.place(to[0], set, h, &s)
			if to[1] != to[0] {
				t.place(to[1], set, h, &s)
			}
			continue
		}
		t.place(to[h>>(63-head.depth)&1], set, h, &s)
	}
	head.dead = true
}

// place puts a state into the first unused slot of a set of a segment that nobody else knows yet.
func (t *table) place(to segment, set int, h uint64, s *rule.State) {
	_, home := setOf(h, t.sets)
	if h == floorHash {
		to.header().floors |= 1 << set
	}
	for i := range uint(setSlots) {
		if at := set*setSlots + int((home+i)%setSlots); to.hash(at) == unused {
			to.set(t, at, h, s)
			return
		}
	}
	panic("memstore: a set that was not full is full after it was moved")
}

// publish lets a new segment be found: the one that h is in, or its sibling, as the last bit of its prefix has it. It
// holds t.mu. Who reads the directory meanwhile finds the old segment, where every slot is claimed, and comes back.
func (t *table) publish(h, bit uint64, to segment) {
	depth := uint(to.header().depth)
	d := t.dir.Load()
	if depth > d.depth {
		wider := &directory{depth: d.depth + 1, entries: make([]entry, 2*len(d.entries))}
		for i := range wider.entries {
			e, was := &wider.entries[i], &d.entries[i/2]
			e.packed.Store(was.packed.Load())
			e.tall.Store(was.tall.Load())
			e.wide.Store(was.wide.Load())
		}
		t.dir.Store(wider)
		d = wider
	}
	first := (h>>(64-depth)&^1 | bit) << (d.depth - depth)
	if depth == 0 {
		first = 0
	}
	for i := range uint64(1) << (d.depth - depth) {
		d.entries[first+i].point(to)
	}
}
