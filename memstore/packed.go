package memstore

import (
	"sync/atomic"
	"unsafe"

	"github.com/slidegate/slidegate/rule"
)

// packedSegment holds states that fit one word each. A decision about a key that is there takes no lock: it reads the
// word, decides, and swaps the word for the new one if nobody else has meanwhile. A refusal writes nothing at all, so
// refusing scales with the processors.
//
// Everything else happens under the lock, and minds those who do not take it: a claimed slot has the word `locked`,
// which sends them to wait for the lock; a slot gets a new owner in the order word locked, new hash, new word, and who
// reads a word looks at the hash again after it.
//
// There is no pointer in it: the garbage collector does not look inside, and it fills an allocation exactly.
type packedSegment struct {
	segmentHeader
	_     [packedHeader - unsafe.Sizeof(segmentHeader{})]byte
	slots [packedSets * setSlots]packedSlot
}

// Four slots share a cache line, and none spans two.
type packedSlot struct{ hash, word atomic.Uint64 }

const packedHeader = segmentBytes - packedSets*setSlots*unsafe.Sizeof(packedSlot{})

func newPackedSegment(depth uint8) *packedSegment {
	g := new(packedSegment)
	g.depth, g.order = depth, segmentOrder.Add(1)
	return g
}

// find returns the slot of h, or nil if it is not there. It needs no lock; without it, nil may be out of date.
func (g *packedSegment) find(h uint64) *packedSlot {
	set, home := setOf(h, packedSets)
	slots := (*[setSlots]packedSlot)(g.slots[set*setSlots:])
	for i := range uint(setSlots) {
		slot := &slots[(home+i)%setSlots]
		switch slot.hash.Load() {
		case h:
			return slot
		case unused:
			return nil
		}
	}
	return nil
}

func (g *packedSegment) header() *segmentHeader { return &g.segmentHeader }
func (g *packedSegment) hash(i int) uint64      { return g.slots[i].hash.Load() }

func (g *packedSegment) read(t *table, i int, s *rule.State) bool {
	word := g.slots[i].word.Load()
	if word == locked {
		return false
	}
	s.Counts = append(s.Counts[:0], 0, 0)[:t.layout.parts]
	t.layout.unpack(word, s)
	return true
}

func (g *packedSegment) claim(t *table, i int, c *claim) {
	c.word = g.slots[i].word.Swap(locked)
	c.ownState(t)
	t.layout.unpack(c.word, &c.state)
}

func (g *packedSegment) claimFree(t *table, i int, now rule.Micros, c *claim) bool {
	slot := &g.slots[i]
	c.word = slot.word.Load()
	// The slot of an expired key may come to life before it is ours: its owner needs no lock for that.
	if c.word == locked || !t.layout.expired(c.word, now) || !slot.word.CompareAndSwap(c.word, locked) {
		return false
	}
	c.ownState(t)
	return true
}

func (g *packedSegment) put(t *table, i int, h uint64, c *claim) {
	slot := &g.slots[i]
	owner := c.word & t.layout.owner
	if slot.hash.Load() != h {
		owner ^= t.layout.owner
	}
	g.store(t, i, h, &c.state, owner)
}

func (g *packedSegment) release(i int, c *claim) { g.slots[i].word.Store(c.word) }

func (g *packedSegment) set(t *table, i int, h uint64, s *rule.State) { g.store(t, i, h, s, 0) }

// store writes a slot that nobody else may write now.
func (g *packedSegment) store(t *table, i int, h uint64, s *rule.State, owner uint64) {
	word, fits := t.layout.pack(s)
	if !fits {
		panic("memstore: a state was let through that cannot be packed")
	}
	g.slots[i].hash.Store(h)
	g.slots[i].word.Store(word | owner)
}

func (g *packedSegment) drain(t *table, i int, s *rule.State) {
	t.layout.unpack(g.slots[i].word.Swap(locked), s)
}
