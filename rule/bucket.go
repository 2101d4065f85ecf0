package rule

// A token bucket is stored as what is missing from a full bucket, and the time at which that much was missing. What is
// missing is the bucket's debt, always in 1/Window of a unit: a unit is exactly Window, and a microsecond refills exactly
// Quota. So no rate is ever rounded, and what was used stays used when the quota or the burst changes: the debt is in
// units, and is only refilled at another rate. The time at which the bucket is full again, as in GCRA, would mean another number
// of units after such a change, and a clock that stepped back would refill it.
//
// Nothing but time and giving back lowers the debt: a look or a charge under a smaller limit leaves what was used under a
// larger one.
//
// A state has an end, Until, at which it counts as full whatever the limit is by then, so that all stores forget it at the
// same time: a window after it was last charged, or when it is full under the limit that charged it, whichever is later.
// Several charges have the latest of their ends. Giving back does not change the end.

func (l *Limit) emptyDebt() wide { return product(l.Burst, l.Window) }

// deepestDebt is how far charges under l can overdraw a bucket, because they cannot be refused: one window's refill beyond
// empty, and no more units than a port can represent exactly. A debt from the time of a larger limit may be deeper.
func (l *Limit) deepestDebt() wide { return product(min(l.Burst+l.Quota, MaxQuota), l.Window) }

func (s *State) fullBucket() bool { return s.Missing == 0 && s.Rest == 0 }

// debt returns what is missing as of s.Start.
func (l *Limit) debt(s *State) wide {
	return product(s.Missing, l.Window).plus(wide{0, uint64(s.Rest)})
}

func lesser(a, b wide) wide {
	if a.above(b) {
		return b
	}
	return a
}

func (l *Limit) lookBucket(s *State, now Micros, v *view) {
	switch ahead := s.Start - now; {
	case s.fullBucket():
	case ahead > l.Window: // the clock had jumped ahead: keep the debt, as of now
		v.debt, v.until, v.Moved = l.debt(s), s.Until-ahead, true
	case ahead > 0: // a time before the state's own counts as the state's own
		v.debt, v.until, v.At = l.debt(s), s.Until, s.Start
	case now < s.Until:
		if debt, refilled := l.debt(s), product(l.Quota, -ahead); debt.above(refilled) {
			v.debt, v.until = debt.minus(refilled), s.Until
		}
	}
	v.Room = l.roomBucket(v.debt)
}

func (l *Limit) roomBucket(debt wide) int64 {
	empty := l.emptyDebt()
	if debt.above(empty) {
		return -debt.minus(empty).overUp(int64(l.Window))
	}
	room, _ := empty.minus(debt).over(int64(l.Window))
	return room
}

// chargeBucket adds n units to the debt, down to the deepest one. A debt that is deeper already stays as it is. The end is at
// most when the deepest debt of this limit is refilled: a debt from the time of a much larger quota does not last longer.
func (l *Limit) chargeBucket(s *State, v *view, n int64) {
	debt := lesser(v.debt.plus(product(n, l.Window)), l.deepestDebt())
	if v.debt.above(debt) {
		debt = v.debt
	}
	l.raiseDebt(s, v, debt)
}

// drainBucket empties the bucket, and reports whether that changed it: a bucket that is empty or overdrawn stays as it is.
// It is the effect of a refusal that counts.
func (l *Limit) drainBucket(s *State, v *view) (changed bool) {
	if empty := l.emptyDebt(); empty.above(v.debt) {
		l.raiseDebt(s, v, empty)
		return true
	}
	return l.moveBucket(s, v)
}

// raiseDebt writes a debt that a charge has raised, as of v.At.
func (l *Limit) raiseDebt(s *State, v *view, debt wide) {
	s.Start = v.At
	s.Missing, s.Rest = debt.over(int64(l.Window))
	full := lesser(debt, l.deepestDebt()).overUp(l.Quota)
	s.Until = max(v.until, v.At+max(l.Window, Micros(full)))
	v.debt, v.until, v.Room = debt, s.Until, l.roomBucket(debt)-v.held
}

// moveBucket moves a state that the clock left far ahead back to v.At, with its end, and reports whether it did.
func (l *Limit) moveBucket(s *State, v *view) bool {
	if !v.Moved {
		return false
	}
	s.Start, s.Until = v.At, v.until
	s.Missing, s.Rest = v.debt.over(int64(l.Window))
	return true
}

// waitBucket returns the time at which n fit: when enough is refilled, or when the state ends.
func (l *Limit) waitBucket(v *view, n int64) Micros {
	target := product(l.Burst-n, l.Window)
	if !v.debt.above(target) {
		return 0
	}
	// A debt from the time of a much larger quota can take longer to refill than a number of microseconds can represent.
	left := v.until - v.At
	if missing := v.debt.minus(target); product(l.Quota, left).above(missing) {
		left = Micros(missing.overUp(l.Quota))
	}
	return v.At + left - v.Now
}

// giveBackBucket undoes the charge of n units made at at, except what has been refilled since: that much is free already,
// and returning it would add units that were never taken. It subtracts from the debt as of s.Start, and leaves the refill
// since then to the limit that decides next: this one may be a reservation's limit, which no longer applies to the key.
func (l *Limit) giveBackBucket(s *State, v *view, n int64, at Micros) int64 {
	back := product(n, l.Window)
	if at != Oldest && at < v.At {
		refilled := product(l.Quota, v.At-at)
		if !back.above(refilled) {
			return 0
		}
		back = back.minus(refilled)
	}
	back = lesser(back, v.debt)
	if back == (wide{}) {
		return 0
	}
	l.moveBucket(s, v)
	s.Missing, s.Rest = l.debt(s).minus(back).over(int64(l.Window))
	return back.overUp(int64(l.Window))
}
