package rule

import (
	"slices"

	"pgregory.net/rapid"
)

// drawNear returns a state as it may be at now: used recently, a while ago or, after the clock stepped back, slightly in
// the future.
func drawNear(t *rapid.T, l *Limit, now Micros) (s State) {
	if rapid.IntRange(0, 3).Draw(t, "script") == 0 {
		s, _ = drawUsed(t, l, now)
		return s
	}
	own := clamp(now+draw(t, "ahead", 0, l.Window)-draw(t, "behind", 0, 2*l.Window), 0, MaxNow)
	if rapid.IntRange(0, 9).Draw(t, "jumped") == 9 {
		own = clamp(own+l.Window+draw(t, "jump", 0, l.Window), 0, MaxNow)
	}
	algorithm, most := l.Algorithm, l.Quota
	if algorithm == DefaultAlgorithm && rapid.Bool().Draw(t, "log") {
		algorithm, most = SlidingLog, DefaultLog
	}
	switch algorithm {
	case SlidingLog:
		times := make([]Micros, rapid.Int64Range(0, min(most, 20)).Draw(t, "units"))
		for i := range times {
			times[i] = own - spread(t, "unit", 0, l.Window-1)
		}
		slices.Sort(times)
		s.Log = logOf(times, l.Window, most)
	case TokenBucket:
		s.Start, s.Missing, s.Rest = own, draw(t, "missing", 0, min(l.Burst+l.Quota, MaxQuota)), draw(t, "rest", 0, int64(l.Window)-1)
		fills := product(s.Missing, l.Window).plus(wide{0, uint64(s.Rest)}).overUp(l.Quota)
		s.Until = min(own+max(l.Window, min(Micros(fills), 2*MaxWindow))+draw(t, "until", 0, MaxWindow), MaxQuota)
	case InFlight:
		for i := range rapid.Int64Range(0, min(l.Quota, 20)).Draw(t, "slots") {
			s.Slots = append(s.Slots, Slot{ID(i + 1), own - spread(t, "slot", 0, l.Window-1)})
		}
		slices.SortFunc(s.Slots, func(a, b Slot) int { return int(max(-1, min(1, a.Renewed-b.Renewed))) })
	default:
		s = drawCounts(t, l)
		s.Start = startOf(l, own)
	}
	return s
}

func writeMoved(l *Limit, s *State, now Micros) {
	if v := l.viewAt(s, now); v.Moved {
		l.writeBack(s, &v)
	}
}
