package rule

import "math/big"

// bucketModel remembers when a token bucket will be full: in whole microseconds, and in 1/quota of one what is over.
type bucketModel struct {
	full Micros
	rest int64
	now  Micros // the moment it was last placed at
}

func (m *bucketModel) copy() model { c := *m; return &c }

// missing returns how many units of a full bucket are missing, which need not be a whole number.
func (m *bucketModel) missing(l *Limit) *big.Rat {
	if m.full < m.now {
		return new(big.Rat)
	}
	left := new(big.Rat).SetInt64(int64(m.full - m.now))
	left.Add(left, big.NewRat(min(m.rest, l.Quota-1), l.Quota))
	return left.Mul(left, big.NewRat(l.Quota, int64(l.Window)))
}

func (m *bucketModel) set(l *Limit, missing *big.Rat) {
	left := new(big.Rat).Mul(missing, big.NewRat(int64(l.Window), l.Quota))
	micros := ratFloor(left)
	rest := left.Sub(left, new(big.Rat).SetInt64(micros))
	m.full = m.now + Micros(micros)
	m.rest = ratFloor(rest.Mul(rest, new(big.Rat).SetInt64(l.Quota)))
}

func (m *bucketModel) place(l *Limit, now Micros) (at Micros, moved bool) {
	m.now = now
	jumped := new(big.Rat).SetInt64(l.Burst)
	jumped.Add(jumped, big.NewRat(2*l.Quota, 1))
	if m.missing(l).Cmp(jumped) > 0 {
		m.set(l, new(big.Rat).SetInt64(l.Burst))
		return now, true
	}
	return now, false
}

func (m *bucketModel) room(l *Limit, _ Micros) int64 {
	burst := new(big.Rat).SetInt64(l.Burst)
	return ratFloor(burst.Sub(burst, m.missing(l)))
}

// charge overdraws by at most a quota beyond empty, unless it is overdrawn by more already.
func (m *bucketModel) charge(l *Limit, _ Micros, n int64) {
	missing := m.missing(l)
	deepest := new(big.Rat).Add(new(big.Rat).SetInt64(l.Burst), new(big.Rat).SetInt64(l.Quota))
	if missing.Cmp(deepest) < 0 {
		missing.Add(missing, new(big.Rat).SetInt64(n))
		if missing.Cmp(deepest) > 0 {
			missing = deepest
		}
	}
	m.set(l, missing)
}

func (m *bucketModel) deny(l *Limit, _ Micros, _ int64) {
	missing := m.missing(l)
	if empty := new(big.Rat).SetInt64(l.Burst); missing.Cmp(empty) < 0 {
		missing = empty
	}
	m.set(l, missing)
}

func (m *bucketModel) back(l *Limit, _ Micros, n int64, moment Micros) int64 {
	fills := new(big.Rat).Mul(big.NewRat(l.Burst, l.Quota), new(big.Rat).SetInt64(int64(l.Window)))
	if moment != Oldest && new(big.Rat).SetInt64(int64(m.now-moment)).Cmp(fills) >= 0 {
		return 0
	}
	missing := m.missing(l)
	given := min(n, -ratFloor(new(big.Rat).Neg(missing)))
	missing.Sub(missing, new(big.Rat).SetInt64(given))
	if missing.Sign() < 0 {
		missing = new(big.Rat)
	}
	m.set(l, missing)
	return given
}

func (m *bucketModel) written(*Limit, Micros) {}

func ratFloor(x *big.Rat) int64 {
	return new(big.Int).Div(x.Num(), x.Denom()).Int64()
}
