package rule

import "slices"

// A slot of an in-flight limit is held from the time it is taken until it is released, or until its window has passed since
// it was taken or last renewed. The caller chooses the ID of a slot, so releasing or renewing one twice does not affect
// another, and a caller that did not receive the answer can simply try again.

// ID identifies a reservation: the slots that it holds, and whether it was settled. Callers choose it at random. The zero
// ID identifies nothing: each slot taken with it is a new one, and can only expire.
type ID uint64

// Slot is a slot that is held.
type Slot struct {
	ID      ID
	Renewed Micros // when it was taken, or last renewed
}

// lookSlots counts the slots that are still held.
func (l *Limit) lookSlots(s *State, now Micros, v *view) {
	if n := len(s.Slots); n > 0 {
		switch newest := s.Slots[n-1].Renewed; {
		case newest > now+l.Window: // the clock had jumped ahead: keep the slots, move their times back
			v.Moved, v.behind = true, newest-now
		case newest > now: // a time before the state's own counts as the state's own
			v.At = newest
		}
	}
	v.live = liveSlots(s.Slots, v.At-l.Window+v.behind)
	v.Room = l.Quota - v.live
}

// liveSlots returns how many slots were renewed after t.
func liveSlots(slots []Slot, t Micros) int64 {
	first, _ := slices.BinarySearchFunc(slots, t+1, func(s Slot, t Micros) int { return int(max(-1, min(1, s.Renewed-t))) })
	return int64(len(slots) - first)
}

// writeSlots writes what lookSlots found: it moves times back with the clock, and drops slots that were not renewed in
// time.
func (l *Limit) writeSlots(s *State, v *view) {
	s.Slots = slices.Delete(s.Slots, 0, len(s.Slots)-int(v.live))
	for i := range s.Slots {
		s.Slots[i].Renewed -= v.behind
	}
	v.behind = 0
}

// holdSlot takes a slot for id, or renews it. If all are held, it replaces the least recently renewed one.
func (l *Limit) holdSlot(s *State, v *view, id ID) {
	l.writeSlots(s, v)
	if i := findSlot(s, id); i >= 0 {
		s.Slots = slices.Delete(s.Slots, i, i+1)
	}
	if most := int(max(l.Quota, v.live)); len(s.Slots) >= most {
		s.Slots = slices.Delete(s.Slots, 0, len(s.Slots)-most+1)
	}
	s.Slots = append(s.Slots, Slot{id, v.At})
	v.live = int64(len(s.Slots))
	v.Room = l.Quota - v.live
}

// releaseSlot releases the slot of id and returns how many slots it released: 1, or 0 if the slot is no longer held.
func (l *Limit) releaseSlot(s *State, v *view, id ID) int64 {
	if !l.holdsSlot(s, v, id) {
		return 0
	}
	l.writeSlots(s, v)
	i := findSlot(s, id)
	s.Slots = slices.Delete(s.Slots, i, i+1)
	return 1
}

// releaseOldest releases up to n slots, the least recently renewed first.
func (l *Limit) releaseOldest(s *State, v *view, n int64) int64 {
	n = min(n, v.live)
	if n > 0 {
		l.writeSlots(s, v)
		s.Slots = slices.Delete(s.Slots, 0, int(n))
	}
	return n
}

// holdsSlot reports whether id holds a slot.
func (l *Limit) holdsSlot(s *State, v *view, id ID) bool {
	return findSlot(s, id) >= len(s.Slots)-int(v.live)
}

// findSlot returns the index of the slot of id, or a negative number if id holds none.
func findSlot(s *State, id ID) int {
	if id == 0 {
		return -1 - len(s.Slots)
	}
	i := slices.IndexFunc(s.Slots, func(slot Slot) bool { return slot.ID == id })
	if i < 0 {
		return -1 - len(s.Slots)
	}
	return i
}

// waitSlots returns when the slot expires that must expire before n more fit, if none is renewed or released.
func (l *Limit) waitSlots(s *State, v *view, n int64) Micros {
	excess := v.live + n - l.Quota
	if excess <= 0 {
		return 0
	}
	return s.Slots[int64(len(s.Slots))-v.live+excess-1].Renewed - v.behind + l.Window - v.Now
}
