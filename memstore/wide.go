package memstore

import (
	"github.com/slidegate/slidegate/rule"
)

// wideSegment holds states of any shape, under its lock. There is no pointer per key in it, except to the rings of
// sliding logs.
type wideSegment struct {
	segmentHeader
	hashes  []uint64
	words   []int64       // stride of them for each slot
	rings   []*byte       // sliding-log only
	held    [][]rule.Slot // in-flight only
	claimed []uint32      // for each set, which slots are claimed
}

func newWideSegment(t *table, depth uint8) *wideSegment {
	slots := t.sets * setSlots
	w := &wideSegment{
		hashes: make([]uint64, slots), words: make([]int64, slots*t.stride), claimed: make([]uint32, t.sets),
	}
	if t.shape.Algorithm == rule.SlidingLog {
		w.rings = make([]*byte, slots)
	}
	if t.shape.Algorithm == rule.InFlight {
		w.held = make([][]rule.Slot, slots)
	}
	w.depth, w.order = depth, segmentOrder.Add(1)
	return w
}

// load makes s the state in slot i. Its counts stay where they are: to change them is to change the slot.
func (w *wideSegment) load(t *table, i int, s *rule.State) {
	words := w.words[i*t.stride:][:t.stride:t.stride]
	switch t.shape.Algorithm {
	case rule.SlidingLog:
		*s = rule.State{Log: rule.LogFrom(rule.Micros(words[0]), w.rings[i])}
	case rule.TokenBucket:
		*s = rule.State{Start: rule.Micros(words[0]), Until: rule.Micros(words[1]), Missing: words[2], Rest: words[3]}
	case rule.InFlight:
		*s = rule.State{Slots: w.held[i]}
	default:
		*s = rule.State{Start: rule.Micros(words[0]), Counts: words[1:]}
	}
}

// store makes slot i hold s.
func (w *wideSegment) store(t *table, i int, s *rule.State) {
	words := w.words[i*t.stride:][:t.stride]
	switch t.shape.Algorithm {
	case rule.SlidingLog:
		last, ring := s.Log.Words()
		words[0], w.rings[i] = int64(last), ring
	case rule.TokenBucket:
		words[0], words[1], words[2], words[3] = int64(s.Start), int64(s.Until), s.Missing, s.Rest
	case rule.InFlight:
		w.held[i] = fitted(s.Slots)
	default:
		words[0] = int64(s.Start)
		copy(words[1:], s.Counts)
	}
}

// fitted returns held slots in no more than about four times the memory that they need: a key that held many once must not keep
// the memory for them.
func fitted(held []rule.Slot) []rule.Slot {
	if len(held) == 0 && cap(held) > 4 || cap(held) > 16 && cap(held) > 4*len(held) {
		return append([]rule.Slot(nil), held...)
	}
	return held
}

// find returns the slot of h, or -1.
func (w *wideSegment) find(t *table, h uint64) int {
	set, home := setOf(h, t.sets)
	hashes := w.hashes[set*setSlots:][:setSlots]
	for i := range uint(setSlots) {
		at := (home + i) % setSlots
		switch hashes[at] {
		case h:
			return int(set*setSlots + at)
		case unused:
			return -1
		}
	}
	return -1
}

// takeWide is TakeOne over a wide segment.
func (s *Store) takeWide(w *wideSegment, p *plan, h uint64, cost int64) (
	allowed bool, flags rule.Flags, remaining int64, after, resetAfter, at rule.Micros, err error,
) {
	t := p.table
	if p.limit.Algorithm == rule.InFlight { // whose slots belong to somebody
		return s.takeOneLocked(p, h, cost)
	}
	w.mu.Lock()
	i := w.find(t, h)
	if w.dead || i < 0 {
		w.mu.Unlock()
		return s.takeOneLocked(p, h, cost)
	}
	var state rule.State
	if p.limit.Algorithm == rule.SlidingLog { // the commonest: what load would do, without the rest
		state.Log = rule.LogFrom(rule.Micros(w.words[i]), w.rings[i])
	} else {
		w.load(t, i, &state)
	}
	a, changed := p.limit.TakeOne(&state, s.now(), cost)
	if changed {
		w.store(t, i, &state)
	}
	w.mu.Unlock()
	return a.Allowed, a.Flags, a.Remaining, a.After(), a.ResetAfter, a.At, nil
}

func (w *wideSegment) header() *segmentHeader { return &w.segmentHeader }
func (w *wideSegment) hash(i int) uint64      { return w.hashes[i] }

func (w *wideSegment) isClaimed(i int) bool { return w.claimed[i/setSlots]>>(i%setSlots)&1 == 1 }
func (w *wideSegment) flipClaim(i int)      { w.claimed[i/setSlots] ^= 1 << (i % setSlots) }

func (w *wideSegment) read(t *table, i int, s *rule.State) bool {
	if w.isClaimed(i) {
		return false
	}
	var there rule.State
	w.load(t, i, &there)
	counts := append(s.Counts[:0], there.Counts...)
	*s = there
	s.Counts = counts
	return true
}

func (w *wideSegment) claim(t *table, i int, c *claim) {
	w.flipClaim(i)
	w.load(t, i, &c.state)
}

func (w *wideSegment) claimFree(t *table, i int, now rule.Micros, c *claim) bool {
	if w.isClaimed(i) {
		return false
	}
	if w.hashes[i] != unused {
		w.load(t, i, &c.state)
		if t.limit.Expires(&c.state) > now {
			return false
		}
	}
	w.flipClaim(i)
	c.ownState(t)
	return true
}

func (w *wideSegment) put(t *table, i int, h uint64, c *claim) {
	w.flipClaim(i)
	w.hashes[i] = h
	w.store(t, i, &c.state)
}

func (w *wideSegment) release(i int, _ *claim) { w.flipClaim(i) }

func (w *wideSegment) set(t *table, i int, h uint64, s *rule.State) {
	if w.isClaimed(i) {
		w.flipClaim(i)
	}
	w.hashes[i] = h
	own := s.Clone()
	w.store(t, i, &own)
}

func (w *wideSegment) drain(t *table, i int, s *rule.State) { w.load(t, i, s) }
