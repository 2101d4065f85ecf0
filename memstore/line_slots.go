package memstore

import (
	"github.com/slidegate/slidegate/rule"

	"github.com/slidegate/slidegate/internal/quick"
)

// slotsForm is how the slots that a key holds under an in-flight limit are laid out in one line, or in a chain of lines.
// Decisions about them need not be fast, so each change writes all of them.
//
//	word  0     1        2 3 4    5 6 7
//	      hash  control  IDs      times                                      up to three
//	                     ID       time of the newest, first line (32 bits)   more: the others are in the chain
//
// A line of the chain has four IDs, then the low 48 bits of their times, the least recently renewed first. A slot that was
// renewed a window before the newest is no longer held, so 48 bits are enough.
type slotsForm struct {
	slab   *slab
	window rule.Micros
}

const (
	heldInLine  = 3 // in the slot's own line
	heldIDWord  = 2
	heldAtWord  = 5
	heldPerLine = 4 // in a line of the chain

	slotsTotalAt = fieldsAt
)

func newSlotsForm(s *slab, window rule.Micros) *slotsForm { return &slotsForm{slab: s, window: window} }

func heldTotal(control uint64) int { return int(control &^ busy >> slotsTotalAt) }

// heldLines returns how many lines of a chain n slots take.
func heldLines(n int) int {
	if n <= heldInLine {
		return 0
	}
	return (n - 1 + heldPerLine - 1) / heldPerLine
}

func (f *slotsForm) lines() int { return 1 }

// take leaves everything to the slow path, because a slot belongs to a reservation.
func (f *slotsForm) take(*line, uint64, *rule.Limit, *clock, int64, *notes) (
	outcome quick.Outcome, remaining int64, after, resetAfter, at rule.Micros,
) {
	return quick.Undecided, 0, 0, 0, 0
}

// load implements lineForm.
func (f *slotsForm) load(l *line, control uint64, s *rule.State) {
	*s = rule.State{Counts: s.Counts[:0], Slots: s.Slots[:0]}
	total := heldTotal(control)
	if total <= heldInLine {
		for i := range total {
			s.Slots = append(s.Slots, rule.Slot{ID: rule.ID(l[heldIDWord+i].Load()), Renewed: rule.Micros(l[heldAtWord+i].Load())})
		}
		return
	}
	newest := rule.Slot{ID: rule.ID(l[heldIDWord].Load()), Renewed: rule.Micros(l[heldAtWord].Load())}
	number := upper(l[chainWord].Load())
	for i := range total - 1 {
		index := uint(i % heldPerLine)
		if i > 0 && index == 0 {
			number = f.slab.follow(number)
		}
		x := f.slab.line(number)
		age := (uint64(newest.Renewed) - stamp(x, heldPerLine, wide, index)) & (1<<wide - 1)
		s.Slots = append(s.Slots, rule.Slot{ID: rule.ID(x[index].Load()), Renewed: newest.Renewed - rule.Micros(age)})
	}
	s.Slots = append(s.Slots, newest)
}

// store implements lineForm.
func (f *slotsForm) store(l *line, control uint64, s *rule.State) (newControl uint64, ok storeResult) {
	held := s.Slots
	for len(held) > 0 && held[0].Renewed <= held[len(held)-1].Renewed-f.window { // it has expired under any limit
		held = held[1:]
	}
	first, enough := f.slab.resize(l[hashWord].Load(), f.chain(l, control), heldLines(heldTotal(control)), heldLines(len(held)), true)
	if !enough {
		return 0, noMemory
	}
	if len(held) <= heldInLine {
		for i, slot := range held {
			l[heldIDWord+i].Store(uint64(slot.ID))
			l[heldAtWord+i].Store(uint64(slot.Renewed))
		}
		return heldControl(control, len(held)), stored
	}
	newest := held[len(held)-1]
	l[heldIDWord].Store(uint64(newest.ID))
	l[heldAtWord].Store(uint64(newest.Renewed))
	l[chainWord].Store(withUpper(0, first))
	for i, slot := range held[:len(held)-1] {
		index := uint(i % heldPerLine)
		if i > 0 && index == 0 {
			first = f.slab.follow(first)
		}
		x := f.slab.line(first)
		x.change(int(index), uint64(slot.ID))
		setStamp(x, heldPerLine, wide, index, uint64(slot.Renewed)&(1<<wide-1))
	}
	return heldControl(control, len(held)), stored
}

func heldControl(control uint64, total int) uint64 {
	return control&^fieldsMask | uint64(total)<<slotsTotalAt
}

// chain returns the first line of the chain, or 0.
func (f *slotsForm) chain(l *line, control uint64) uint32 {
	if heldTotal(control) <= heldInLine {
		return 0
	}
	return upper(l[chainWord].Load())
}

// clear resets the slot to a key never seen.
func (f *slotsForm) clear(l *line, control uint64) (newControl uint64) {
	f.slab.put(f.chain(l, control), heldLines(heldTotal(control)))
	return heldControl(control, 0)
}

// newest returns when the most recently renewed slot was renewed; there must be one.
func (f *slotsForm) newest(l *line, control uint64) rule.Micros {
	if total := heldTotal(control); total <= heldInLine {
		return rule.Micros(l[heldAtWord+total-1].Load())
	}
	return rule.Micros(l[heldAtWord].Load())
}

// expires implements lineForm.
func (f *slotsForm) expires(l *line, control uint64) rule.Micros {
	if heldTotal(control) == 0 {
		return 0
	}
	return f.newest(l, control) + f.window
}

// weight implements lineForm.
func (f *slotsForm) weight(l *line, control uint64, now rule.Micros) int64 {
	if f.expires(l, control) <= now {
		return 0
	}
	return int64(heldTotal(control))
}
