package rule

// The token bucket, as GCRA: one arrival time says when the bucket will be full again. What is missing from a full
// bucket is its debt, here always in 1/quota microseconds, in which a unit costs exactly Window and a microsecond
// refills exactly Quota. So no rate is ever rounded.

func (l *Limit) emptyDebt() wide { return product(l.Burst, l.Window) }

// deepestDebt is how far a bucket can be overdrawn by charges that must not be refused: one window beyond empty.
func (l *Limit) deepestDebt() wide { return l.emptyDebt().plus(product(l.Quota, l.Window)) }

func (l *Limit) lookBucket(s *State, now Micros) View {
	v := View{Now: now, At: now}
	if s.Start >= now {
		// A rest beyond the quota was left by a larger one; either way it is less than a microsecond.
		v.debt = product(l.Quota, s.Start-now).plus(wide{0, uint64(min(s.Rest, l.Quota-1))})
	}
	if v.debt.above(l.deepestDebt().plus(product(l.Quota, l.Window))) {
		v.debt, v.Moved = l.emptyDebt(), true // the clock had jumped ahead
	}
	v.Room = l.roomBucket(v.debt)
	return v
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
	debt := v.debt.plus(product(n, l.Window))
	if deepest := l.deepestDebt(); debt.above(deepest) {
		debt = deepest
		if v.debt.above(deepest) { // by a clock that stepped back or a limit that changed: a charge never makes it less
			debt = v.debt
		}
	}
	l.setDebt(s, v, debt)
}

// drainBucket is what a refusal does that counts: it empties the bucket, never below empty.
func (l *Limit) drainBucket(s *State, v *View) {
	debt := v.debt
	if empty := l.emptyDebt(); empty.above(debt) {
		debt = empty
	}
	l.setDebt(s, v, debt)
}

func (l *Limit) setDebt(s *State, v *View, debt wide) {
	after, rest := debt.over(l.Quota)
	s.Start, s.Rest = v.Now+Micros(after), rest
	v.debt, v.Room = debt, l.roomBucket(debt)
}

func (l *Limit) waitBucket(v *View, n int64) Micros {
	target := product(l.Burst-n, l.Window)
	if !v.debt.above(target) {
		return 0
	}
	return Micros(v.debt.minus(target).overUp(l.Quota))
}

// giveBackBucket undoes the charge of n units made at at. After the time that an empty bucket needs to fill, whatever
// was taken at at has been refilled.
func (l *Limit) giveBackBucket(s *State, v *View, n int64, at Micros) int64 {
	if at != Oldest && v.Now-at >= Micros(l.emptyDebt().overUp(l.Quota)) {
		return 0
	}
	given := min(n, v.debt.overUp(int64(l.Window)))
	if given == 0 {
		return 0
	}
	if back := product(given, l.Window); v.debt.above(back) {
		l.setDebt(s, v, v.debt.minus(back))
	} else {
		l.setDebt(s, v, wide{})
	}
	return given
}
