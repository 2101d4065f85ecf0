package rule

// The sliding log: every unit's time is kept, at most quota of them. A unit counts iff its time is later than a window
// ago. When a charge must not be refused, or a refusal counts, the oldest units are overwritten: the state never grows.

// lookLog counts the units that are still in the window.
func (l *Limit) lookLog(s *State, now Micros, v *View) {
	if !s.Log.empty() {
		switch newest := s.Log.newest(); {
		case newest > now+l.Window: // the clock had jumped ahead: the units stay, their times come back
			v.Moved, v.behind = true, newest-now
		case newest > now: // an older moment than the state's own is taken as that
			v.At = newest
		}
	}
	v.live = min(s.Log.liveAfter(v.At-l.Window+v.behind), l.Quota)
	v.Room = l.Quota - v.live
}

func (l *Limit) chargeLog(s *State, v *View, n int64) {
	l.settleLog(s, v)
	s.Log.add(v.At, min(n, l.Quota), l.Window, l.Quota)
	v.live = min(v.live+n, l.Quota)
	v.Room = l.Quota - v.live
}

// settleLog writes what lookLog saw: times moved back with the clock, expired units dropped.
func (l *Limit) settleLog(s *State, v *View) {
	s.Log.keep(v.live)
	if v.behind > 0 {
		s.Log.moveBack(v.behind, l.Window)
		v.behind = 0
	}
}

// waitLog finds the unit that must expire before n more fit.
func (l *Limit) waitLog(s *State, v *View, n int64) Micros {
	excess := v.live + n - l.Quota
	if excess <= 0 {
		return 0
	}
	return s.Log.fromNewest(v.live-excess) - v.behind + l.Window - v.Now
}

// giveBackLog removes up to n units of moment at, or the oldest ones.
func (l *Limit) giveBackLog(s *State, v *View, n int64, at Micros) int64 {
	found := v.live
	if at != Oldest {
		at += v.behind
		found = min(v.live, s.Log.liveAfter(at-1)) - min(v.live, s.Log.liveAfter(at))
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

// AnswerLog is Answer for a port that keeps the log, or the slots of an in-flight limit, elsewhere. It is told how many units
// count after the decision, the time of the newest one, and blocking, that of the unit which must expire before cost fits, or
// before one unit does if the request was allowed; and at, the moment that decided, and whether times were moved back with
// the clock.
func (l *Limit) AnswerLog(live int64, newest, blocking, now, at Micros, moved bool, cost, granted int64, allowed bool) Answer {
	a := Answer{Allowed: allowed, Granted: granted, Remaining: max(0, l.Quota-live), At: at}
	if live > 0 {
		a.ResetAfter = newest + l.Window - now
	}
	switch {
	case allowed && a.Remaining == 0:
		a.NextAfter = blocking + l.Window - now
	case allowed:
	case cost > l.Quota:
		a.RetryAfter = Never
	default:
		a.RetryAfter = blocking + l.Window - now
	}
	if moved {
		a.Flags |= ClockMoved
	}
	return a
}
