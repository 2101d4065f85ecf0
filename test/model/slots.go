package model

import "slices"

// slotState is who holds a slot, and when it was taken or renewed, least recently first.
type slotState struct{ slots []slot }

type slot struct {
	holder  string
	renewed Micros
}

func (s *slotState) clone() state { return &slotState{slices.Clone(s.slots)} }

func (s *slotState) time(l *Limit, now Micros) (Micros, bool) {
	if len(s.slots) == 0 {
		return now, false
	}
	newest := s.slots[len(s.slots)-1].renewed
	return max(now, newest), newest-now > l.window
}

func (s *slotState) moveBack(_ *Limit, now Micros) {
	by := s.slots[len(s.slots)-1].renewed - now
	for i := range s.slots {
		s.slots[i].renewed -= by
	}
}

func (s *slotState) live(l *Limit, at Micros) []slot {
	n := 0
	for n < len(s.slots) && s.slots[n].renewed <= at-l.window {
		n++
	}
	return s.slots[n:]
}

func (s *slotState) room(l *Limit, at Micros) int64 { return l.Quota - int64(len(s.live(l, at))) }

// hold takes a slot for a holder, or renews it.
func (s *slotState) hold(l *Limit, at Micros, holder string) {
	s.release(l, at, holder)
	s.slots = append(s.slots, slot{holder, at})
}

// release frees the slot of a holder, and reports whether it was held.
func (s *slotState) release(l *Limit, at Micros, holder string) bool {
	live := slices.Clone(s.live(l, at))
	s.slots = slices.DeleteFunc(live, func(have slot) bool { return have.holder == holder })
	return len(s.slots) < len(live)
}

// holds reports whether a holder has a slot.
func (s *slotState) holds(l *Limit, at Micros, holder string) bool {
	return slices.ContainsFunc(s.live(l, at), func(have slot) bool { return have.holder == holder })
}

func (s *slotState) charge(*Limit, Micros, int64, bool) { panic("slots are taken by a holder") }

func (s *slotState) giveBack(*Limit, Micros, Micros, int64) int64 {
	panic("slots are released by their holder")
}

func (s *slotState) refund(l *Limit, at Micros, n int64) int64 {
	live := s.live(l, at)
	n = min(n, int64(len(live)))
	s.slots = slices.Clone(live[n:])
	return n
}

func (s *slotState) over(l *Limit, at Micros) bool { return len(s.live(l, at)) == 0 }
