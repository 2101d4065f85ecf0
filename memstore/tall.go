package memstore

import (
	"sync/atomic"

	"github.com/slidegate/slidegate/internal/quick"
	"github.com/slidegate/slidegate/rule"
)

// tallForm holds the same states as pairForm in twice the memory, without bounds on counts and times. It is used if a state
// cannot be packed, and holds windows that do not begin at multiples of their length. Requests for an existing key in the
// current window are decided without the lock, by a swap of the word that contains the current count. The other words
// change only under the page's lock, while the word is `locked`, so a reader that finds the same word before and after
// reading them has read consistent values.
type tallForm struct {
	wordSlots
	parts int
}

// tallSlot is a slot. Its word is the current count, and above it the low bits of the window's number and the bits that
// distinguish owners of a slot.
type tallSlot struct{ hash, word, start, previous *atomic.Uint64 }

const (
	tallsInLine = lineWords / 4
	tallCount   = uint64(rule.MaxQuota)
	tallIndex   = 53 // where the 8 bits of the window's number begin
	tallNumber  = 1<<8 - 1
	tallOwner   = 3 << 61 // bit 63 above it stays 0, so no word equals `locked`
	tallNext    = 1 << 61
)

func tallAt(g *page, i int) tallSlot {
	l := &g.lines[uint(i)/tallsInLine]
	at := uint(i) % tallsInLine * 4
	return tallSlot{&l[at], &l[at+1], &l[at+2], &l[at+3]}
}

// takeTall is TakeSingle over a page of tall slots.
func (s *Store) takeTall(g *page, p *plan, h uint64, cost int64) (
	allowed bool, flags rule.Flags, remaining int64, after, resetAfter, at rule.Micros, err error,
) {
	i := find(p.table.form(g), g, h)
	if i < 0 || !quick.IsPair(p.limit) {
		return s.takeOneLocked(p, h, cost)
	}
	slot := tallAt(g, i)
	for {
		word := slot.word.Load()
		start, previous := slot.start.Load(), slot.previous.Load()
		if word == locked || slot.word.Load() != word || slot.hash.Load() != h {
			return s.takeOneLocked(p, h, cost)
		}
		now := s.clock.read()
		outcome, shift, current, _, remaining, after, resetAfter := quick.TakePair(p.limit,
			rule.Micros(start), int64(word&tallCount), int64(previous), now, cost)
		switch {
		case outcome == quick.Refused || outcome == quick.Admitted && cost == 0:
			return outcome == quick.Admitted, 0, remaining, after, resetAfter, now, nil
		case outcome == quick.Undecided || shift > 0 || current > rule.MaxQuota:
			return s.takeOneLocked(p, h, cost)
		}
		if next := word&^tallCount | uint64(current); p.notes.swap(slot.word, word, locked, next, h, cost, now) {
			return true, s.kept(), remaining, after, resetAfter, now, nil
		}
		stepBack()
	}
}

func (f tallForm) expires(t *table, g *page, i int, _ uint64) rule.Micros {
	slot := tallAt(g, i)
	if slot.hash.Load() == unused {
		return 0
	}
	var counts [2]int64
	return t.limit.Expires(&rule.State{Start: rule.Micros(slot.start.Load()), Counts: counts[:f.parts]})
}

func (tallForm) weight(t *table, g *page, i int, w uint64, now rule.Micros) int64 {
	slot := tallAt(g, i)
	weight := int64(w & tallCount)
	if now < rule.Micros(slot.start.Load())+t.limit.Window {
		weight += int64(slot.previous.Load())
	}
	return weight
}

func (f tallForm) load(_ *table, g *page, i int, w uint64, s *rule.State) {
	slot := tallAt(g, i)
	s.Start = rule.Micros(slot.start.Load())
	s.Counts = append(s.Counts[:0], int64(w&tallCount), int64(slot.previous.Load()))[:f.parts]
	if slot.hash.Load() == unused {
		s.Start = rule.Absent
	}
}

func (tallForm) write(t *table, g *page, i int, w, h uint64, s *rule.State) {
	slot := tallAt(g, i)
	owner := w & tallOwner
	if slot.hash.Load() != h {
		owner = (w + tallNext) & tallOwner
		slot.hash.Store(h)
	}
	number, previous := uint64(0), uint64(0)
	if s.Start != rule.Absent {
		number = uint64(s.Start/t.limit.Window) & tallNumber
	}
	if len(s.Counts) == 2 {
		previous = uint64(s.Counts[1])
	}
	slot.start.Store(uint64(s.Start))
	slot.previous.Store(previous)
	slot.word.Store(owner | number<<tallIndex | uint64(s.Counts[0]))
}

func (tallForm) copy(g *page, i int, w uint64, to *page, j int) {
	from, slot := tallAt(g, i), tallAt(to, j)
	slot.hash.Store(from.hash.Load())
	slot.start.Store(from.start.Load())
	slot.previous.Store(from.previous.Load())
	slot.word.Store(w)
}

func (tallForm) fits(*rule.State, rule.Micros, int64) bool { return true }
