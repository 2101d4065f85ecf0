package model

import (
	"github.com/slidegate/slidegate"
	"github.com/slidegate/slidegate/rule"
)

// defaultState is what was used of a limit that names no algorithm: the units of a log, until a charge makes it parts. Parts remain
// until nothing in them counts.
type defaultState struct {
	log   logState
	parts *windowState // nil while it is a log
}

// mostInLog is how many units a log without a name has at most, and under which quotas.
const mostInLog = 100

// defaultParts returns the number of parts of a window: the largest from 50 to 60 that divides it, or 0.
func defaultParts(window Micros) int64 {
	for n := int64(60); n >= 50; n-- {
		if window%n == 0 {
			return n
		}
	}
	return 0
}

// isDefault reports whether a limit names neither an algorithm nor something that only one algorithm has.
func isDefault(l slidegate.Limit) bool {
	return l.Algorithm == rule.DefaultAlgorithm && l.Calendar == 0 && l.Segments == 0 && l.Overlap == 0 && l.Anchor == 0
}

func (s *defaultState) clone() state {
	copied := &defaultState{log: *s.log.clone().(*logState)}
	if s.parts != nil {
		copied.parts = s.parts.clone().(*windowState)
	}
	return copied
}

// time is not that of parts in which nothing counts any more.
func (s *defaultState) time(l *Limit, now Micros) (Micros, bool) {
	if s.parts == nil {
		return s.log.time(l, now)
	}
	at, ahead := s.parts.time(l, now)
	if s.empty(l, at) {
		return now, false
	}
	return at, ahead
}

// empty reports whether nothing in the parts counts.
func (s *defaultState) empty(l *Limit, at Micros) bool { return s.parts.used(l, at) == 0 }

func (s *defaultState) moveBack(l *Limit, now Micros) {
	if s.parts == nil {
		s.log.moveBack(l, now)
		return
	}
	s.parts.moveBack(l, now)
}

func (s *defaultState) room(l *Limit, at Micros) int64 {
	if s.parts == nil {
		return s.log.room(l, at)
	}
	return s.parts.room(l, at)
}

// charge drops no unit of a log but those that no longer count.
func (s *defaultState) charge(l *Limit, at Micros, n int64, refused bool) {
	if s.parts != nil && s.empty(l, at) {
		*s = defaultState{}
	}
	if s.parts == nil {
		live := s.log.live(l, at)
		if l.Quota <= mostInLog && !l.Lease && int64(len(live))+n <= mostInLog {
			s.log.units = append([]Micros(nil), live...)
			for range n {
				s.log.units = append(s.log.units, at)
			}
			return
		}
		*s = defaultState{parts: &windowState{counts: map[Micros]int64{}}}
		for _, unit := range live {
			s.parts.counts[floor(unit, l.part)]++
		}
	}
	s.parts.charge(l, at, n, refused)
}

// giveBack removes nothing that was charged a window ago, although its part may still count: there it may be the unit of another.
func (s *defaultState) giveBack(l *Limit, at, charged Micros, n int64) int64 {
	switch {
	case charged <= at-l.window:
		return 0
	case s.parts == nil:
		return s.log.giveBack(l, at, charged, n)
	}
	return s.parts.giveBack(l, at, charged, n)
}

func (s *defaultState) refund(l *Limit, at Micros, n int64) int64 {
	if s.parts == nil {
		return s.log.refund(l, at, n)
	}
	return s.parts.refund(l, at, n)
}

func (s *defaultState) over(l *Limit, at Micros) bool {
	if s.parts == nil {
		return s.log.over(l, at)
	}
	return s.parts.over(l, at)
}
