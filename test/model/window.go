package model

import (
	"maps"
	"math/big"

	"github.com/slidegate/slidegate"
	"github.com/slidegate/slidegate/rule"
)

const (
	logAlgorithm    = slidegate.SlidingLog
	slotAlgorithm   = slidegate.InFlight
	bucketAlgorithm = slidegate.TokenBucket
	fixedAlgorithm  = slidegate.FixedWindow
)

// windowState is what was counted in each part of a sliding window, by when the part begins.
type windowState struct {
	begun  bool
	start  Micros // of the newest part that was charged, or rolled to
	counts map[Micros]int64
}

func (s *windowState) clone() state {
	return &windowState{s.begun, s.start, maps.Clone(s.counts)}
}

func (s *windowState) time(l *Limit, now Micros) (Micros, bool) {
	if !s.begun {
		return now, false
	}
	return max(now, s.start), s.start-now > l.window
}

func (s *windowState) moveBack(l *Limit, now Micros) {
	start := now
	if l.Anchor == rule.AnchorClock {
		start = floor(now, l.part)
	}
	moved := map[Micros]int64{}
	for at, n := range s.counts {
		moved[at-s.start+start] = n
	}
	s.start, s.counts = start, moved
}

// startAt returns when the part that contains a time begins. The grid of anchor first begins again with the first charge after the
// whole window and another part were idle.
func (s *windowState) startAt(l *Limit, at Micros) Micros {
	switch {
	case l.Anchor == rule.AnchorClock:
		return floor(at, l.part)
	case !s.begun || (at-s.start)/l.part > l.parts:
		return at
	default:
		return s.start + floor(at-s.start, l.part)
	}
}

// used is what counts at a time: every part that the window covers, the oldest by the share that is covered.
func (s *windowState) used(l *Limit, at Micros) int64 {
	if !s.begun {
		return 0
	}
	start, sum := s.startAt(l, at), new(big.Int)
	for i := range l.parts {
		sum.Add(sum, big.NewInt(s.counts[start-i*l.part]))
	}
	sum.Add(sum, big.NewInt(oldest(l, s.counts[start-l.parts*l.part], l.part-(at-start))))
	return saturated(sum)
}

// oldest returns what the oldest part counts if so much of it is covered.
func oldest(l *Limit, count int64, covered Micros) int64 {
	if l.overlap == slidegate.OverlapWhole {
		return count
	}
	weighted := product(count, covered)
	if l.overlap == rule.OverlapUp {
		return ceilDiv(weighted, l.part)
	}
	return weighted.Quo(weighted, big.NewInt(l.part)).Int64()
}

func saturated(n *big.Int) int64 {
	if n.IsInt64() {
		return n.Int64()
	}
	return 1 << 62
}

func (s *windowState) room(l *Limit, at Micros) int64 { return l.Quota - s.used(l, at) }

func (s *windowState) charge(l *Limit, at Micros, n int64, _ bool) {
	s.start, s.begun = s.startAt(l, at), true
	s.forget(l)
	s.counts[s.start] = min(most, s.counts[s.start]+n)
}

// forget drops the parts that the window has left.
func (s *windowState) forget(l *Limit) {
	maps.DeleteFunc(s.counts, func(start Micros, _ int64) bool { return start < s.start-l.parts*l.part })
}

func (s *windowState) giveBack(l *Limit, at, charged Micros, n int64) int64 {
	if !s.begun {
		return 0
	}
	start := s.startAt(l, at)
	charged = min(charged, start+l.part-1) // a later time is that of a window that was moved back
	for i := range l.parts + 1 {
		if begin := start - i*l.part; begin <= charged && charged < begin+l.part {
			n = min(n, s.counts[begin])
			s.counts[begin] -= n
			s.rollTo(l, start, n)
			return n
		}
	}
	return 0
}

func (s *windowState) refund(l *Limit, at Micros, n int64) (returned int64) {
	if !s.begun {
		return 0
	}
	start := s.startAt(l, at)
	for i := l.parts; i >= 0; i-- {
		some := min(n-returned, s.counts[start-i*l.part])
		s.counts[start-i*l.part] -= some
		returned += some
	}
	s.rollTo(l, start, returned)
	return returned
}

// rollTo moves the newest part if something was changed.
func (s *windowState) rollTo(l *Limit, start Micros, changed int64) {
	if changed > 0 {
		s.start = start
		s.forget(l)
	}
}

func (s *windowState) over(l *Limit, at Micros) bool {
	return !s.begun || at >= s.start+(l.parts+1)*l.part
}

// floor rounds a time down to a multiple of a duration.
func floor(t, to Micros) Micros {
	rest := t % to
	if rest < 0 {
		rest += to
	}
	return t - rest
}

// fixedState is the count of one window.
type fixedState struct {
	begun bool
	start Micros
	count int64
}

func (s *fixedState) clone() state {
	copied := *s
	return &copied
}

func (s *fixedState) time(l *Limit, now Micros) (Micros, bool) {
	if !s.begun {
		return now, false
	}
	return max(now, s.start), s.ahead(l, now)
}

// ahead reports whether the window is more than a window ahead of now. A calendar period is taken to be as long as it can be: the
// clocks may change in it, or a zone may change sides.
func (s *fixedState) ahead(l *Limit, now Micros) bool {
	if l.Calendar == 0 {
		return s.start-now > l.window
	}
	days := map[rule.Period]Micros{
		rule.Day: 1, rule.Week: 7, rule.Month: 31, rule.Year: 366,
	}[l.Calendar]
	return s.start-now > (days*24+8)*3600e6
}

func (s *fixedState) moveBack(l *Limit, now Micros) { s.start = s.fresh(l, now) }

// fresh returns when a window that is charged at a time for the first time begins.
func (s *fixedState) fresh(l *Limit, at Micros) Micros {
	switch {
	case l.Calendar != 0:
		start, _ := period(l.Calendar, l.Zone, at)
		return start
	case l.Anchor == rule.AnchorClock:
		return floor(at, l.window)
	default:
		return at
	}
}

func (s *fixedState) end(l *Limit) Micros {
	if l.Calendar != 0 {
		_, end := period(l.Calendar, l.Zone, s.start)
		return end
	}
	return s.start + l.window
}

func (s *fixedState) room(l *Limit, at Micros) int64 {
	if s.over(l, at) {
		return l.Quota
	}
	return l.Quota - s.count
}

func (s *fixedState) charge(l *Limit, at Micros, n int64, _ bool) {
	if s.over(l, at) {
		*s = fixedState{begun: true, start: s.fresh(l, at)}
	}
	s.count = min(most, s.count+n)
}

func (s *fixedState) giveBack(l *Limit, at, charged Micros, n int64) int64 {
	if s.over(l, at) || charged < s.start { // a later time is that of a window that was moved back
		return 0
	}
	return s.refund(l, at, n)
}

func (s *fixedState) refund(l *Limit, at Micros, n int64) int64 {
	if s.over(l, at) {
		return 0
	}
	n = min(n, s.count)
	s.count -= n
	return n
}

func (s *fixedState) over(l *Limit, at Micros) bool { return !s.begun || at >= s.end(l) }
