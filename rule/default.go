package rule

import "fmt"

// A limit that names neither an algorithm nor an option of one is a hard cap: no window ever holds more than the quota. Its state
// is a log while it is small, and otherwise a sliding window in parts with overlap whole. The state says which of the two it is, and
// the number of parts follows from the window, so all such limits of one window share their state, whatever their quotas are.
//
// Only a charge turns a log into parts: one under a quota above DefaultLog or with Lease, or one that would make the log hold
// more than DefaultLog units. Nothing turns parts into a log: they remain until no unit counts any more. A quota never caps or drops
// units here, only time and giving back do.

// DefaultLog is the largest quota under which a key starts as a log, and the most units that such a log holds.
const DefaultLog = 100

// The number of parts is the largest from minDefaultParts to maxDefaultParts that divides the window.
const (
	minDefaultParts = 50
	maxDefaultParts = 60
)

// defaultParts returns the number of parts for a window, or 0 if no number divides it. One of minDefaultParts divides every window in
// whole milliseconds.
func defaultParts(window Micros) int {
	for n := Micros(maxDefaultParts); n >= minDefaultParts; n-- {
		if window%n == 0 {
			return int(n)
		}
	}
	return 0
}

// isDefault reports whether l names no algorithm and no option that only one algorithm has; Normalize has filled in such options.
func (l *Limit) isDefault() bool {
	named := l.Segments != 0 || l.Overlap != OverlapUp || l.Anchor != AnchorClock
	filled := l.Segments != 0 && l.Segments == defaultParts(l.Window) && l.Overlap == OverlapWhole && l.Anchor == AnchorClock
	return l.Algorithm == DefaultAlgorithm && l.Calendar == 0 && (!named || filled)
}

// normalizeDefault fills in the options of the parts.
func (l *Limit) normalizeDefault() error {
	l.Overlap, l.Segments = OverlapWhole, defaultParts(l.Window)
	if l.Segments > 0 || l.Window < minWindow || l.Window > MaxWindow { // check rejects the window
		return nil
	}
	return fmt.Errorf("window: %dus does not divide into %d to %d parts of whole microseconds; use a window in whole milliseconds, "+
		"or name the number of parts, as in segments=1", l.Window, minDefaultParts, maxDefaultParts)
}

// StartsInParts reports whether the state of a key never seen becomes parts when cost is charged under l, which names no algorithm.
func (l *Limit) StartsInParts(cost int64) bool {
	return l.Quota > DefaultLog || l.Lease || cost > DefaultLog
}

// InParts reports whether a state has counts: whether the state of a limit without a named algorithm is in parts. Otherwise it is a log.
func (s *State) InParts() bool { return !s.absentWindow() }

// lookDefault looks at a log or at parts. Parts in which nothing counts any more are like a state never seen, so they have no time of their own
// either.
func (l *Limit) lookDefault(s *State, now Micros, v *view) {
	if s.InParts() {
		if l.lookWindow(s, now, v); v.Room < l.Quota {
			v.parts = true
			return
		}
		*v = view{Now: now, At: now, Room: l.Quota}
		return
	}
	l.lookLog(s, now, v)
}

func (l *Limit) chargeDefault(s *State, v *view, n int64) {
	if !v.parts {
		s.dropParts()
		if l.StartsInParts(v.live + n) {
			l.toParts(s, v)
		}
	}
	if v.parts {
		l.chargeWindow(s, v, n)
	} else {
		l.appendLog(s, v, n, DefaultLog)
	}
}

// dropParts makes a state in parts, in which nothing counts, one that was never seen.
func (s *State) dropParts() {
	if s.InParts() {
		clear(s.Counts)
		s.Start = Absent
	}
}

// toParts turns a log into parts: a unit goes to the part that contains its time, in which it counts at least as long.
func (l *Limit) toParts(s *State, v *view) {
	l.settleLog(s, v)
	if len(s.Counts) == 0 {
		s.Counts = make([]int64, l.Parts())
	}
	clear(s.Counts)
	part := l.part()
	s.Start = l.startAt(v.At)
	for i := range s.Log.Len() {
		ago := Micros(0) // in parts
		if at := s.Log.Time(i); at < s.Start {
			ago = (s.Start-at-1)/part + 1
		}
		s.Counts[ago]++
	}
	s.Log.clear()
	v.parts, v.start, v.shift, v.live = true, s.Start, 0, 0
	v.At = max(v.Now, s.Start) // a part's own time is where it starts
}

// giveBackDefault gives back what still counts in a log: a unit whose time left the window was not moved when the log became parts,
// so giving it back would take another one.
func (l *Limit) giveBackDefault(s *State, v *view, n int64, at Micros) int64 {
	switch {
	case !v.parts:
		if s.InParts() {
			return 0
		}
		return l.giveBackLog(s, v, n, at)
	case at != Oldest && at <= v.At-l.Window:
		return 0
	}
	return l.giveBackWindow(s, v, n, at)
}

// asKept returns the algorithm by which the state in v is kept.
func (l *Limit) asKept(v *view) Algorithm {
	switch {
	case l.Algorithm != DefaultAlgorithm:
		return l.Algorithm
	case v.parts:
		return SlidingWindow
	default:
		return SlidingLog
	}
}
