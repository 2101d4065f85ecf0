package rule

import "slices"

// In-flight limits: a slot is held from the moment it is taken until it is released, or until its window has passed since
// it was taken or last renewed. Slots have an ID that the caller chose, so releasing or renewing one twice does nothing to
// another, and a caller that did not hear the answer can just try again.

// ID names a reservation: the slots that it holds, and that it was settled. Callers choose them at random. The zero ID is none:
// a slot that is taken with it is another one each time, and can only run out.
type ID uint64

// Slot is one slot that is held.
type Slot struct {
	ID      ID
	Renewed Micros // when it was taken, or last renewed
}

// lookSlots counts the slots that are still held.
func (l *Limit) lookSlots(s *State, now Micros, v *View) {
	if n := len(s.Slots); n > 0 {
		switch newest := s.Slots[n-1].Renewed; {
		case newest > now+l.Window: // the clock had jumped ahead: the slots stay, their times come back
			v.Moved, v.behind = true, newest-now
		case newest > now: // an older moment than the state's own is taken as that
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

// writeSlots writes what lookSlots saw: times moved back with the clock, slots dropped that were not renewed in time.
func (l *Limit) writeSlots(s *State, v *View) {
	s.Slots = slices.Delete(s.Slots, 0, len(s.Slots)-int(v.live))
	for i := range s.Slots {
		s.Slots[i].Renewed -= v.behind
	}
	v.behind = 0
}

// holdSlot takes a slot for id, or renews it. Where it is taken regardless, the one that was renewed least recently goes.
func (l *Limit) holdSlot(s *State, v *View, id ID) {
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

// releaseSlot gives the slot of id back and returns how many that were: 1, or 0 if it is not held any more.
func (l *Limit) releaseSlot(s *State, v *View, id ID) int64 {
	if !l.holdsSlot(s, v, id) {
		return 0
	}
	l.writeSlots(s, v)
	i := findSlot(s, id)
	s.Slots = slices.Delete(s.Slots, i, i+1)
	return 1
}

// releaseOldest gives back up to n slots, those first that were renewed least recently.
func (l *Limit) releaseOldest(s *State, v *View, n int64) int64 {
	n = min(n, v.live)
	if n > 0 {
		l.writeSlots(s, v)
		s.Slots = slices.Delete(s.Slots, 0, int(n))
	}
	return n
}

// holdsSlot reports whether id holds a slot.
func (l *Limit) holdsSlot(s *State, v *View, id ID) bool {
	return findSlot(s, id) >= len(s.Slots)-int(v.live)
}

// findSlot returns the place of the slot of id, or something below every place.
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

// waitSlots finds the slot that must run out before n more fit, if nobody renews or releases one.
func (l *Limit) waitSlots(s *State, v *View, n int64) Micros {
	excess := v.live + n - l.Quota
	if excess <= 0 {
		return 0
	}
	return s.Slots[int64(len(s.Slots))-v.live+excess-1].Renewed - v.behind + l.Window - v.Now
}

// coverSlots makes s hold at least as many slots as other for at least as long. Whose slots they are is forgotten.
func (l *Limit) coverSlots(s, other *State, now Micros) {
	ours, theirs := l.liveSlotsAt(s, now), l.liveSlotsAt(other, now)
	if len(ours) < len(theirs) {
		ours, theirs = theirs, ours
	}
	for i := range theirs {
		slot := &ours[len(ours)-1-i]
		slot.Renewed = max(slot.Renewed, theirs[len(theirs)-1-i].Renewed)
	}
	for i := range ours {
		ours[i].ID = 0
		ours[i].Renewed = max(ours[i].Renewed, ours[len(ours)-1].Renewed-l.Window+1)
	}
	s.Slots = ours
}

func (l *Limit) liveSlotsAt(s *State, now Micros) []Slot {
	own := State{Slots: slices.Clone(s.Slots)}
	v := l.Look(&own, now)
	l.writeSlots(&own, &v)
	return own.Slots
}
