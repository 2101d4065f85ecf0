package memstore

import (
	"slices"
	"sync"

	"github.com/slidegate/slidegate/rule"
)

// legacy is what a snapshot of version 1 or 2 contained of one shape. It does not record which limits the keys belong to,
// so they wait here until they are requested, or have expired: each hash covers the whole address.
//
// A floor is a state that covers every state that had been forgotten among the keys of one set, in all segments whose
// hashes share a prefix. A key that is not here begins with the floor for its hash.
type legacy struct {
	shape rule.Shape
	limit rule.Limit
	sets  int

	mu     sync.Mutex
	keys   map[uint64]rule.State
	floors map[floorKey]rule.State
	depths []uint // prefix lengths of the floors
}

// floorKey identifies what a floor covers.
type floorKey struct {
	first uint64 // the first hash of the segment
	depth uint   // how many bits all hashes of the segment share
	set   int
}

// Segments were divided into sets.
const (
	maxSets     = 31
	bucketSets1 = 21 // for token buckets in version 1
	maxDepth2   = 28
)

func newLegacy(shape rule.Shape, sets int) *legacy {
	return &legacy{shape: shape, limit: shape.Limit(), sets: sets, keys: map[uint64]rule.State{}, floors: map[floorKey]rule.State{}}
}

// recall sets the initial state of a claim from what is known of its key. It reports whether that is the key's own state,
// and not a floor.
func (o *legacy) recall(c *claim, now rule.Micros) bool {
	if o == nil {
		return false
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	if s, ok := o.keys[c.h]; ok && o.limit.Expires(&s) > now {
		c.begin(&s)
		return true
	}
	for _, depth := range o.depths {
		key := floorKey{first: c.h >> 1 >> (63 - depth) << 1 << (63 - depth), depth: depth, set: homeOf(c.h, o.sets)}
		if s, ok := o.floors[key]; ok && o.limit.Expires(&s) > now {
			c.begin(&s)
			c.inherited = true
		}
	}
	return false
}

// begin sets the claim's state to a copy of s.
func (c *claim) begin(s *rule.State) {
	own := s.Clone()
	copy(c.counts, own.Counts)
	own.Counts = c.counts
	c.state = own
}

// drop drops a key that now has a slot in a table.
func (o *legacy) drop(h uint64) {
	if o == nil {
		return
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	delete(o.keys, h)
}

// snapshot writes what has been neither requested nor expired, as version 2 did.
func (o *legacy) snapshot(e *encoder, shape rule.Shape, now rule.Micros) {
	o.mu.Lock()
	defer o.mu.Unlock()
	named := false
	name := func() {
		if !named {
			e.int(recordShape)
			e.shape(shape)
			e.int(int64(o.sets))
		}
		named = true
	}
	for h, s := range o.keys {
		if o.limit.Expires(&s) > now {
			name()
			key := savedKey{h, s}
			key.encode(e, shape.Algorithm)
		}
	}
	for key, s := range o.floors {
		if o.limit.Expires(&s) > now {
			name()
			e.int(recordFloor)
			e.int(int64(key.set))
			e.int(int64(key.depth))
			e.hash(key.first)
			e.state(shape.Algorithm, &s)
		}
	}
}

// legacyShape reads a shape, and how many sets its segments had.
func (d *decoder) legacyShape() *legacy {
	shape := d.shape()
	sets := int64(maxSets)
	switch {
	case d.version >= 2:
		sets = d.Int()
		d.Check(sets >= 1 && sets <= maxSets)
	case shape.Algorithm == rule.TokenBucket:
		sets = bucketSets1
	case !packable(shape):
		parts := shape.Limit()
		sets = int64(max(1, min(maxSets, (16<<10)/(32*8*(parts.Parts()+2)))))
	}
	return newLegacy(shape, int(sets))
}

// legacyState reads a key or a floor of a shape.
func (d *decoder) legacyState(o *legacy, floor bool, now rule.Micros) {
	if !floor {
		if k := d.key(&o.limit); d.err == nil && o.limit.Expires(&k.state) > now {
			o.keys[k.hash] = k.state
		}
		return
	}
	set, depth := d.Int(), d.Int()
	key := floorKey{set: int(set), depth: uint(depth)}
	key.first = d.Uint64()
	d.Check(set >= 0 && set < int64(o.sets) && depth >= 0 && depth <= maxDepth2)
	if d.err == nil && depth < 64 && key.first<<depth != 0 {
		d.Check(false) // it lies outside its table
	}
	var s rule.State
	d.state(&o.limit, &s)
	if d.err == nil && o.limit.Expires(&s) > now {
		o.floors[key] = s
		if !slices.Contains(o.depths, key.depth) {
			o.depths = append(o.depths, key.depth)
		}
	}
}
