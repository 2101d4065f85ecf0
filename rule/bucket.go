package rule

// A token bucket is stored as what is missing from a full bucket, and the time at which that much was missing. What is
// missing is the bucket's debt, always in 1/Window of a unit: a unit is exactly Window, and a microsecond refills exactly
// Quota. So no rate is ever rounded, and what was used stays used when the quota or the burst changes: the debt is in
// units, and is only refilled at another rate.
//
// A state has an end, Until, at which it counts as full whatever the limit is by then, so that all stores forget it at the
// same time: a window after it was last charged, or when it is full under the limit that charged it, whichever is later.

// legacyBucket is the Missing of a state written by an older version: Start is when the bucket is full, and Rest is the
// remainder in 1/quota microseconds. The state is converted when it is next charged.
const legacyBucket = -1

// LegacyBucket returns the state of a token bucket as versions before 2 kept it: full at the time full plus rest/quota
// microseconds.
func LegacyBucket(full Micros, rest int64) State {
	return State{Start: full, Missing: legacyBucket, Rest: rest}
}

func (l *Limit) emptyDebt() wide { return product(l.Burst, l.Window) }

// deepestDebt is how far a bucket can be overdrawn, by charges that cannot be denied or by a burst that became smaller: one
// window's refill beyond empty, and no more units than a port can represent exactly.
func (l *Limit) deepestDebt() wide { return product(min(l.Burst+l.Quota, MaxQuota), l.Window) }

func (s *State) fullBucket() bool { return s.Missing == 0 && s.Rest == 0 }

// debt returns what is missing as of s.Start. It caps the debt as of that time, not as of now: otherwise a debt from the
// time of a larger burst would stay at the cap until the excess had been refilled.
func (l *Limit) debt(s *State) wide {
	return l.capDebt(product(s.Missing, l.Window).plus(wide{0, uint64(s.Rest)}))
}

func (l *Limit) capDebt(debt wide) wide {
	if deepest := l.deepestDebt(); debt.above(deepest) {
		return deepest
	}
	return debt
}

func (l *Limit) lookBucket(s *State, now Micros, v *View) {
	switch ahead := s.Start - now; {
	case s.Missing == legacyBucket:
		l.lookLegacy(s, now, v)
	case s.fullBucket():
	case ahead > l.Window: // the clock had jumped ahead: keep the debt, as of now
		v.debt, v.until, v.Moved = l.debt(s), s.Until-ahead, true
	case ahead > 0: // a time before the state's own counts as the state's own
		v.debt, v.until, v.At = l.debt(s), s.Until, s.Start
	case now < s.Until:
		v.until = s.Until
		if debt, refilled := l.debt(s), product(l.Quota, -ahead); debt.above(refilled) {
			v.debt = debt.minus(refilled)
		}
	}
	v.Room = l.roomBucket(v.debt)
}

// lookLegacy is lookBucket for a state that contains only when the bucket is full. If that is farther away than a bucket
// can be overdrawn, the clock had jumped ahead. A denial must then write the state, or its debt would be the deepest one
// again at every look.
func (l *Limit) lookLegacy(s *State, now Micros, v *View) {
	if s.Start >= now {
		// A rest beyond the quota dates from a larger quota; either way it is less than a microsecond.
		debt := product(l.Quota, s.Start-now).plus(wide{0, uint64(min(s.Rest, l.Quota-1))})
		v.debt, v.until = l.capDebt(debt), s.Start+1
		v.Moved = debt.above(v.debt)
	}
}

func (l *Limit) roomBucket(debt wide) int64 {
	empty := l.emptyDebt()
	if debt.above(empty) {
		return -debt.minus(empty).overUp(int64(l.Window))
	}
	room, _ := empty.minus(debt).over(int64(l.Window))
	return room
}

func (l *Limit) chargeBucket(s *State, v *View, n int64) {
	l.setDebt(s, v, l.capDebt(v.debt.plus(product(n, l.Window))))
}

// drainBucket empties the bucket, never below empty. It is the effect of a denial that counts.
func (l *Limit) drainBucket(s *State, v *View) {
	debt := v.debt
	if empty := l.emptyDebt(); empty.above(debt) {
		debt = empty
	}
	l.setDebt(s, v, debt)
}

func (l *Limit) setDebt(s *State, v *View, debt wide) {
	s.Start = v.At
	s.Missing, s.Rest = debt.over(int64(l.Window))
	s.Until = v.At + max(l.Window, Micros(debt.overUp(l.Quota)))
	v.debt, v.until, v.Room = debt, s.Until, l.roomBucket(debt)
}

// waitBucket returns the time at which n fit: when enough is refilled, or when the state ends.
func (l *Limit) waitBucket(v *View, n int64) Micros {
	target := product(l.Burst-n, l.Window)
	if !v.debt.above(target) {
		return 0
	}
	return min(v.At+Micros(v.debt.minus(target).overUp(l.Quota)), v.until) - v.Now
}

// giveBackBucket undoes the charge of n units made at at, except what has been refilled since: that much is free already,
// and returning it would add units that were never taken.
func (l *Limit) giveBackBucket(s *State, v *View, n int64, at Micros) int64 {
	back := product(n, l.Window)
	if at != Oldest && at < v.At {
		refilled := product(l.Quota, v.At-at)
		if !back.above(refilled) {
			return 0
		}
		back = back.minus(refilled)
	}
	if back.above(v.debt) {
		back = v.debt
	}
	if back == (wide{}) {
		return 0
	}
	l.setDebt(s, v, v.debt.minus(back))
	return back.overUp(int64(l.Window))
}

// coverBucket takes the larger debt, as of the later time, until the later end.
func (l *Limit) coverBucket(s, other *State, now Micros) {
	theirs := l.bucketAt(other, now)
	if theirs.fullBucket() {
		return
	}
	ours := l.bucketAt(s, now)
	s.Missing, s.Rest = ours.Missing, ours.Rest
	if ours.Missing < theirs.Missing || ours.Missing == theirs.Missing && ours.Rest < theirs.Rest {
		s.Missing, s.Rest = theirs.Missing, theirs.Rest
	}
	s.Start, s.Until = max(ours.Start, theirs.Start), max(ours.Until, theirs.Until)
}

// bucketAt returns s as a state of this version that is not ahead of now by more than a window. The quota is unknown here,
// so the whole burst of a legacy state, which has no debt but only a time at which it is full, counts as missing until
// then.
func (l *Limit) bucketAt(s *State, now Micros) State {
	ahead := s.Start - now
	switch {
	case s.Missing == legacyBucket && ahead >= 0:
		return State{Start: now, Missing: MaxQuota, Until: s.Start + 1}
	case s.Missing == legacyBucket, s.fullBucket(), ahead <= 0 && now >= s.Until:
		return State{}
	case ahead > l.Window:
		return State{Start: now, Missing: s.Missing, Rest: s.Rest, Until: s.Until - ahead}
	}
	return *s
}
