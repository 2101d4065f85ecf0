package memstore

import (
	"sync/atomic"
	"unsafe"

	"github.com/slidegate/slidegate/rule"
)

// tallSegment holds the same states as packedSegment in twice the memory, without bounds on counts and times. It takes
// over where a state cannot be packed. Who is there and in the current window is decided about without the lock, by a
// swap of the word that holds the current count. The other words change under the lock alone, while the word is
// `locked`, so who reads them between two looks at the same word has read what belongs to it.
type tallSegment struct {
	segmentHeader
	_     [tallHeader - unsafe.Sizeof(segmentHeader{})]byte
	slots [packedSets * setSlots]tallSlot
}

// tallSlot is a slot. Its word is the current count, above it the low bits of the window's number and the bit that
// tells owners of a slot apart.
type tallSlot struct{ hash, word, start, previous atomic.Uint64 }

const (
	tallHeader = 2*segmentBytes - packedSets*setSlots*unsafe.Sizeof(tallSlot{})
	tallCount  = uint64(rule.MaxQuota)
	tallIndex  = 53       // where the window's number begins, 9 bits of it
	tallOwner  = 1 << 62  // the bit above is never set, so no word is `locked`
	tallNumber = 1<<9 - 1 //
)

func newTallSegment(depth uint8) *tallSegment {
	g := new(tallSegment)
	g.depth, g.order = depth, segmentOrder.Add(1)
	return g
}

// find returns the slot of h, or nil if it is not there. It needs no lock; without it, nil may be out of date.
func (g *tallSegment) find(h uint64) *tallSlot {
	set, home := setOf(h, packedSets)
	slots := (*[setSlots]tallSlot)(g.slots[set*setSlots:])
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

// takeTall is TakeSingle over a tall segment.
func (s *Store) takeTall(g *tallSegment, p *plan, h uint64, cost int64) (
	allowed bool, flags rule.Flags, remaining int64, after, resetAfter, at rule.Micros, err error,
) {
	slot := g.find(h)
	if slot == nil {
		return s.takeOneLocked(p, h, cost)
	}
	for {
		word := slot.word.Load()
		start, previous := slot.start.Load(), slot.previous.Load()
		if word == locked || slot.word.Load() != word || slot.hash.Load() != h {
			return s.takeOneLocked(p, h, cost)
		}
		now := s.now()
		verdict, shift, current, _, remaining, after, resetAfter := p.limit.TakePair(
			rule.Micros(start), int64(word&tallCount), int64(previous), now, cost)
		switch {
		case verdict == rule.Refused || verdict == rule.Admitted && cost == 0:
			return verdict == rule.Admitted, 0, remaining, after, resetAfter, now, nil
		case verdict == rule.Uncommon || shift > 0 || current > rule.MaxQuota:
			return s.takeOneLocked(p, h, cost)
		}
		if slot.word.CompareAndSwap(word, word&^tallCount|uint64(current)) {
			return true, 0, remaining, after, resetAfter, now, nil
		}
		stepBack()
	}
}

func (g *tallSegment) header() *segmentHeader { return &g.segmentHeader }
func (g *tallSegment) hash(i int) uint64      { return g.slots[i].hash.Load() }

// load reads the rest of a slot whose word is this.
func (g *tallSegment) load(i int, word uint64, s *rule.State) {
	slot := &g.slots[i]
	s.Start = rule.Micros(slot.start.Load())
	s.Counts[0] = int64(word & tallCount)
	if len(s.Counts) == 2 {
		s.Counts[1] = int64(slot.previous.Load())
	}
}

func (g *tallSegment) read(t *table, i int, s *rule.State) bool {
	word := g.slots[i].word.Load()
	if word == locked {
		return false
	}
	s.Counts = append(s.Counts[:0], 0, 0)[:t.layout.parts]
	g.load(i, word, s)
	return true
}

func (g *tallSegment) claim(t *table, i int, c *claim) {
	c.word = g.slots[i].word.Swap(locked)
	c.ownState(t)
	g.load(i, c.word, &c.state)
}

func (g *tallSegment) claimFree(t *table, i int, now rule.Micros, c *claim) bool {
	slot := &g.slots[i]
	c.word = slot.word.Load()
	if c.word == locked {
		return false
	}
	if slot.hash.Load() != unused {
		c.ownState(t)
		g.load(i, c.word, &c.state)
		if t.limit.Expires(&c.state) > now {
			return false
		}
	}
	// A state that has expired is only ever charged under the lock.
	slot.word.Store(locked)
	c.ownState(t)
	return true
}

func (g *tallSegment) put(t *table, i int, h uint64, c *claim) {
	owner := c.word & tallOwner
	if g.slots[i].hash.Load() != h {
		owner ^= tallOwner
	}
	g.store(t, i, h, &c.state, owner)
}

func (g *tallSegment) release(i int, c *claim) { g.slots[i].word.Store(c.word) }

func (g *tallSegment) set(t *table, i int, h uint64, s *rule.State) { g.store(t, i, h, s, 0) }

// store writes a slot that nobody else may write now.
func (g *tallSegment) store(t *table, i int, h uint64, s *rule.State, owner uint64) {
	slot := &g.slots[i]
	number := uint64(0)
	if s.Start != rule.Absent {
		number = uint64(s.Start/t.shape.Window) & tallNumber
	}
	slot.hash.Store(h)
	slot.start.Store(uint64(s.Start))
	if len(s.Counts) == 2 {
		slot.previous.Store(uint64(s.Counts[1]))
	}
	slot.word.Store(owner | number<<tallIndex | uint64(s.Counts[0]))
}

func (g *tallSegment) drain(_ *table, i int, s *rule.State) {
	g.load(i, g.slots[i].word.Swap(locked), s)
}
