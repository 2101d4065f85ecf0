package rule

import "math/big"

// bucketModel keeps how many units, not necessarily a whole number, are missing from a full bucket as of a given time, and
// the time at which that is forgotten.
type bucketModel struct {
	missing *big.Rat
	as      Micros
	until   Micros
}

func (m *bucketModel) copy() model {
	c := *m
	c.missing = new(big.Rat).Set(m.missing)
	return &c
}

func (m *bucketModel) place(l *Limit, now Micros) (at Micros, moved bool) {
	ahead := m.as - now
	switch {
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

// owed returns what is missing at a given time.
func (m *bucketModel) owed(l *Limit, at Micros) *big.Rat {
	if m.missing.Sign() == 0 || at >= m.until {
		return new(big.Rat)
	}
	owed := new(big.Rat).Sub(m.missing, refilled(l, at-m.as))
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

// raise stores what is missing at a given time after a charge: at least for a window, and until the limit that charges has
// refilled it, or as much of it as that limit could have charged. It does not end before what was missing already does.
func (m *bucketModel) raise(l *Limit, at Micros, missing *big.Rat) {
	own := missing
	if deepest := m.deepest(l); own.Cmp(deepest) > 0 {
		own = deepest
	}
	until := at + max(l.Window, Micros(ratCeil(new(big.Rat).Quo(own, refilled(l, 1)))))
	if m.owed(l, at).Sign() > 0 {
		until = max(until, m.until)
	}
	m.missing, m.as, m.until = missing, at, until
}

func (m *bucketModel) room(l *Limit, at Micros) int64 {
	burst := new(big.Rat).SetInt64(l.Burst)
	return ratFloor(burst.Sub(burst, m.owed(l, at)))
}

// charge adds n units. It never overdraws the bucket by more than the limit's deepest debt, but takes nothing off a deeper one.
func (m *bucketModel) charge(l *Limit, at Micros, n int64, _ ID) {
	before := m.owed(l, at)
	missing := new(big.Rat).Add(before, new(big.Rat).SetInt64(n))
	if deepest := m.deepest(l); missing.Cmp(deepest) > 0 {
		missing = deepest
	}
	if missing.Cmp(before) < 0 {
		missing = before
	}
	m.raise(l, at, missing)
}

// refuse empties the bucket, and takes no more than that.
func (m *bucketModel) refuse(l *Limit, at Micros, _ int64) {
	if empty := new(big.Rat).SetInt64(l.Burst); m.owed(l, at).Cmp(empty) < 0 {
		m.raise(l, at, empty)
	}
}

// back returns units, less what has been refilled since they were taken: that much is free already. Nothing else changes:
// what is left is refilled from the same time as before, by whichever limit is asked next.
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
	m.missing = new(big.Rat).Sub(m.missing, units)
	return ratCeil(units)
}

func (m *bucketModel) written(*Limit, Micros) {}

func ratFloor(x *big.Rat) int64 { return new(big.Int).Div(x.Num(), x.Denom()).Int64() }
func ratCeil(x *big.Rat) int64  { return -ratFloor(new(big.Rat).Neg(x)) }
