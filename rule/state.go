package rule

import "slices"

// State is what a store keeps of one key under one limit. The zero value is the state of a key never seen. The limit's
// shape determines which fields are in use, except that a state without a named algorithm is a log or in parts; the others stay zero. The functions of this package change a State in
// place, and its Counts in the existing slice, so that a store can lend them its own memory. To keep the old State,
// Clone it first.
type State struct {
	Start   Micros  // window algorithms: the start of the current part, or Absent; token-bucket: the time at which Missing was missing
	Until   Micros  // token-bucket: when nothing is missing any more
	Missing int64   // token-bucket: missing whole units
	Rest    int64   // token-bucket: missing fraction of another unit, in 1/Window
	Counts  []int64 // window algorithms: Parts() of them, the current part first
	Log     Log     // sliding-log
	Slots   []Slot  // in-flight: the slots that are held, the least recently renewed first
	Holds   []Hold  // what reservations hold, the hold that ends first first; some may have ended
}

// Clone returns a State that shares no memory with s.
func (s State) Clone() State {
	s.Counts = slices.Clone(s.Counts)
	s.Log = s.Log.clone()
	s.Slots = slices.Clone(s.Slots)
	s.Holds = slices.Clone(s.Holds)
	return s
}

// reset resets s to the state of a key never seen, keeping its memory.
func (s *State) reset() {
	clear(s.Counts)
	s.Log.clear()
	*s = State{Start: Absent, Counts: s.Counts, Log: s.Log, Slots: s.Slots[:0], Holds: s.Holds[:0]}
}

// absentWindow reports whether a state has no counts, because it was never charged or is not one of a window.
func (s *State) absentWindow() bool { return len(s.Counts) == 0 || s.Start == Absent }

// Expires returns the first time from which s decides like a state never seen, so that a store may forget it from then on,
// but not before, without changing any decision. It is 0 for an absent state.
func (l *Limit) Expires(s *State) Micros {
	expires := l.expiresUsed(s)
	for i := range s.Holds {
		expires = max(expires, s.Holds[i].Ends)
	}
	return expires
}

// expiresUsed is Expires without what is held.
func (l *Limit) expiresUsed(s *State) Micros {
	algorithm := l.Algorithm
	if algorithm == DefaultAlgorithm && !s.InParts() {
		algorithm = SlidingLog
	}
	switch algorithm {
	case SlidingLog:
		if s.Log.empty() {
			return 0
		}
		return s.Log.newest() + l.Window
	case TokenBucket:
		if s.fullBucket() {
			return 0
		}
		return s.Until
	case InFlight:
		if len(s.Slots) == 0 {
			return 0
		}
		return s.Slots[len(s.Slots)-1].Renewed + l.Window
	default:
		if s.absentWindow() {
			return 0
		}
		if l.Calendar != 0 {
			_, end := l.Bounds(s.Start)
			return end
		}
		return s.Start + Micros(l.Parts())*l.part()
	}
}

// Used returns how many units of the capacity are in use at now; more than the capacity if it was overdrawn.
func (l *Limit) Used(s *State, now Micros) int64 {
	v := l.viewAt(s, now)
	return l.Capacity() - v.Room
}
