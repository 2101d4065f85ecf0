package rule

import "math/big"

// bucketModel keeps how many units, not necessarily a whole number, are missing from a full bucket as of a given time, and
// the time at which that is forgotten.
type bucketModel struct {
	missing *big.Rat
	as      Micros
	until   Micros

	legacy bool // written by an older version: it is known only that it is full at full plus rest/quota microseconds
	full   Micros
	rest   int64
}

func (m *bucketModel) copy() model {
	c := *m
	c.missing = new(big.Rat).Set(m.missing)
	return &c
}

func (m *bucketModel) place(l *Limit, now Micros) (at Micros, moved bool) {
	ahead := m.as - now
	switch {
	case m.legacy && m.owed(l, now).Cmp(m.deepest(l)) > 0:
		*m = bucketModel{missing: m.deepest(l), as: now, until: m.full + 1}
		return now, true
	case m.legacy:
		return now, false
	case m.missing.Sign() == 0:
		return now, false
	case ahead > l.Window:
		m.as, m.until = now, m.until-ahead
		return now, true
	case ahead > 0:
		return m.as, false
	}
	return now, false
}

// deepest returns how many units can be missing at most: a full bucket and a quota, capped at the largest count.
func (m *bucketModel) deepest(l *Limit) *big.Rat {
	return new(big.Rat).SetInt64(min(l.Burst+l.Quota, MaxQuota))
}

// owed returns what is missing at a given time. A debt beyond the deepest one never existed.
func (m *bucketModel) owed(l *Limit, at Micros) *big.Rat {
	if m.legacy && at <= m.full { // what is refilled until it is full
		owed := new(big.Rat).SetFrac(big.NewInt(min(m.rest, l.Quota-1)), big.NewInt(int64(l.Window)))
		return owed.Add(owed, refilled(l, m.full-at))
	}
	if m.legacy || m.missing.Sign() == 0 || at >= m.until {
		return new(big.Rat)
	}
	owed := m.deepest(l)
	if m.missing.Cmp(owed) < 0 {
		owed.Set(m.missing)
	}
	owed.Sub(owed, refilled(l, at-m.as))
	if owed.Sign() < 0 {
		owed.SetInt64(0)
	}
	return owed
}

// refilled returns how many units are refilled in an interval.
func refilled(l *Limit, interval Micros) *big.Rat {
	units := new(big.Rat).SetFrac(big.NewInt(l.Quota), big.NewInt(int64(l.Window)))
	return units.Mul(units, new(big.Rat).SetInt64(int64(interval)))
}

// set stores what is missing at a given time: until it is refilled, and at least for a window.
func (m *bucketModel) set(l *Limit, at Micros, missing *big.Rat) {
	if deepest := m.deepest(l); missing.Cmp(deepest) > 0 {
		missing = deepest
	}
	fills := new(big.Rat).Quo(missing, refilled(l, 1))
	m.missing, m.as, m.until, m.legacy = missing, at, at+max(l.Window, Micros(ratCeil(fills))), false
}

func (m *bucketModel) room(l *Limit, at Micros) int64 {
	burst := new(big.Rat).SetInt64(l.Burst)
	return ratFloor(burst.Sub(burst, m.owed(l, at)))
}

func (m *bucketModel) charge(l *Limit, at Micros, n int64, _ ID) {
	m.set(l, at, new(big.Rat).Add(m.owed(l, at), new(big.Rat).SetInt64(n)))
}

// deny empties the bucket, and takes no more than that.
func (m *bucketModel) deny(l *Limit, at Micros, _ int64) {
	missing := m.owed(l, at)
	if empty := new(big.Rat).SetInt64(l.Burst); missing.Cmp(empty) < 0 {
		missing = empty
	}
	m.set(l, at, missing)
}

// back returns units, less what has been refilled since they were taken: that much is free already.
func (m *bucketModel) back(l *Limit, at Micros, n int64, moment Micros, _ ID) int64 {
	units := new(big.Rat).SetInt64(n)
	if moment != Oldest && moment < at {
		units.Sub(units, refilled(l, at-moment))
	}
	owed := m.owed(l, at)
	if units.Cmp(owed) > 0 {
		units.Set(owed)
	}
	if units.Sign() <= 0 {
		return 0
	}
	m.set(l, at, owed.Sub(owed, units))
	return ratCeil(units)
}

// written renews the end of a state, which depends on the limit that writes it.
func (m *bucketModel) written(l *Limit, at Micros) { m.set(l, at, m.owed(l, at)) }

func ratFloor(x *big.Rat) int64 { return new(big.Int).Div(x.Num(), x.Denom()).Int64() }
func ratCeil(x *big.Rat) int64  { return -ratFloor(new(big.Rat).Neg(x)) }
