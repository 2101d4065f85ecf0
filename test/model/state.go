package model

import (
	"slices"

	"github.com/slidegate/slidegate/rule"
)

// state is what a key has used of a limit. Its methods get the limit that looks, which may be another one than that of earlier
// calls: only the shape is the same. None of them reads a clock.
type state interface {
	clone() state
	// time returns the time that decides at now: a time before that of the state counts as the time of the state. If the state is
	// more than a window ahead, time returns now, and true: the state has to be moved back.
	time(l *Limit, now Micros) (at Micros, ahead bool)
	// moveBack moves a state that is ahead back to now, with its counts.
	moveBack(l *Limit, now Micros)
	// room returns what is left of the limit at a time that time returned, or later; negative if more than that was used.
	room(l *Limit, at Micros) int64
	// charge adds units. Refused is set for a refusal that counts.
	charge(l *Limit, at Micros, n int64, refused bool)
	// giveBack removes up to n units that were charged at a time, and returns how many it removed.
	giveBack(l *Limit, at, charged Micros, n int64) int64
	// refund removes up to n units, the oldest ones.
	refund(l *Limit, at Micros, n int64) int64
	// over reports whether the state no longer matters, so that a store may forget it.
	over(l *Limit, at Micros) bool
}

func newState(l *Limit) state {
	switch l.Algorithm {
	case rule.DefaultAlgorithm:
		return &defaultState{}
	case logAlgorithm:
		return &logState{}
	case slotAlgorithm:
		return &slotState{}
	case bucketAlgorithm:
		return &bucketState{}
	case fixedAlgorithm:
		return &fixedState{}
	default:
		return &windowState{counts: map[Micros]int64{}}
	}
}

// logState is the time of every unit, oldest first.
type logState struct{ units []Micros }

func (s *logState) clone() state { return &logState{slices.Clone(s.units)} }

func (s *logState) time(l *Limit, now Micros) (Micros, bool) {
	if len(s.units) == 0 {
		return now, false
	}
	newest := s.units[len(s.units)-1]
	return max(now, newest), newest-now > l.window
}

func (s *logState) moveBack(_ *Limit, now Micros) {
	by := s.units[len(s.units)-1] - now
	for i := range s.units {
		s.units[i] -= by
	}
}

func (s *logState) live(l *Limit, at Micros) []Micros {
	return s.units[s.dead(l, at):]
}

func (s *logState) dead(l *Limit, at Micros) (n int) {
	for n < len(s.units) && s.units[n] <= at-l.window {
		n++
	}
	return n
}

func (s *logState) room(l *Limit, at Micros) int64 { return l.Quota - int64(len(s.live(l, at))) }

// charge remembers as many units as the quota or as count already, whichever is more.
func (s *logState) charge(l *Limit, at Micros, n int64, _ bool) {
	s.units = slices.Clone(s.live(l, at))
	room := max(l.Quota, int64(len(s.units)))
	for range min(n, l.Quota) {
		s.units = append(s.units, at)
	}
	s.units = s.units[max(0, int64(len(s.units))-room):]
}

func (s *logState) giveBack(l *Limit, at, charged Micros, n int64) int64 {
	if charged <= at-l.window {
		return 0
	}
	kept := slices.DeleteFunc(slices.Clone(s.units), func(unit Micros) bool {
		if unit == charged && n > 0 {
			n--
			return true
		}
		return false
	})
	returned := int64(len(s.units) - len(kept))
	if s.units = kept; returned > 0 {
		s.units = slices.Clone(s.live(l, at)) // a state that is written loses what no longer counts, even if the clock goes back later
	}
	return returned
}

func (s *logState) refund(l *Limit, at Micros, n int64) int64 {
	live := s.live(l, at)
	n = min(n, int64(len(live)))
	s.units = slices.Clone(live[n:])
	return n
}

func (s *logState) over(l *Limit, at Micros) bool { return len(s.live(l, at)) == 0 }
