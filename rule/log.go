package rule

// A sliding log keeps the time of every unit. A unit counts if and only if its time is less than a window ago, whatever the
// quota is by then. If a charge cannot be refused, or a refusal counts, it overwrites the oldest units: the state never grows
// beyond the quota, or beyond the units that counted already if the quota was larger before.

// lookLog counts the units that are still in the window.
func (l *Limit) lookLog(s *State, now Micros, v *view) {
	if !s.Log.empty() {
		switch newest := s.Log.newest(); {
		case newest > now+l.Window: // the clock had jumped ahead: keep the units, move their times back
			v.Moved, v.behind = true, newest-now
		case newest > now: // a time before the state's own counts as the state's own
			v.At = newest
		}
	}
	v.live = s.Log.liveAfter(v.At - l.Window + v.behind)
	v.Room = l.Quota - v.live
}

func (l *Limit) chargeLog(s *State, v *view, n int64) {
	l.appendLog(s, v, min(n, l.Quota), max(l.Quota, v.live))
}

// appendLog adds n units, at most so many in all.
func (l *Limit) appendLog(s *State, v *view, n, most int64) {
	l.settleLog(s, v)
	s.Log.add(v.At, n, l.Window, most)
	v.live = min(v.live+n, most)
	v.Room = l.Quota - v.live - v.held
}

// settleLog writes what lookLog found: it moves times back with the clock, and drops expired units.
func (l *Limit) settleLog(s *State, v *view) {
	s.Log.keep(v.live)
	if v.behind > 0 {
		s.Log.moveBack(v.behind, l.Window)
		v.behind = 0
	}
}

// waitLog returns when the unit expires that must expire before n more fit.
func (l *Limit) waitLog(s *State, v *view, n int64) Micros {
	excess := v.live + n - l.Quota
	if excess <= 0 {
		return 0
	}
	return s.Log.fromNewest(v.live-excess) - v.behind + l.Window - v.Now
}

// giveBackLog removes up to n units charged at at, or the oldest ones if at is Oldest.
func (l *Limit) giveBackLog(s *State, v *view, n int64, at Micros) int64 {
	found := v.live
	if at != Oldest {
		at += v.behind
		found = min(v.live, s.Log.liveAfter(at-1)) - min(v.live, s.Log.liveAfter(at)) // those that still count
	}
	given := min(n, found)
	if given == 0 {
		return 0
	}
	if at == Oldest {
		v.live -= given
	} else {
		s.Log.keep(v.live)
		s.Log.remove(at, given, l.Window)
		v.live -= given
	}
	l.settleLog(s, v)
	return given
}
