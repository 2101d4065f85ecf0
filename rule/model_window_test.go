package rule

import (
	"math/big"
	"slices"
)

// windowModel keeps every charge to a window algorithm. It finds where parts start by going through all charges.
type windowModel struct{ all []charged }

func (m *windowModel) copy() model { return &windowModel{slices.Clone(m.all)} }

// lengths returns the length of a part, and after how many parts nothing is left of a charge.
func (m *windowModel) lengths(l *Limit) (part, parts Micros) {
	if l.Algorithm == FixedWindow {
		return l.Window, 1
	}
	return l.Window / Micros(l.Segments), Micros(l.Segments) + 1
}

// begin returns where the first part starts of a key that is first seen, or seen again after it was idle, at at.
func (m *windowModel) begin(l *Limit, at Micros) Micros {
	if l.Anchor == AnchorFirst {
		return at
	}
	part, _ := m.lengths(l)
	return floorDiv(at, part) * part
}

// start returns where the part of the last charge starts.
func (m *windowModel) start(l *Limit) Micros {
	start := m.begin(l, m.all[0].at)
	for _, c := range m.all[1:] {
		start, _ = m.roll(l, start, c.at)
	}
	return start
}

// roll returns where the part that contains at starts, and whether the windows began again.
func (m *windowModel) roll(l *Limit, start, at Micros) (Micros, bool) {
	part, parts := m.lengths(l)
	passed := floorDiv(at-start, part)
	if passed >= parts {
		return m.begin(l, at), true
	}
	return start + passed*part, false
}

func (m *windowModel) place(l *Limit, now Micros) (at Micros, moved bool) {
	if len(m.all) == 0 {
		return now, false
	}
	start := m.start(l)
	switch ahead := start - now; {
	case ahead > l.Window:
		by := start - m.begin(l, now)
		for i := range m.all {
			m.all[i].at -= by
		}
		return now, true
	case ahead > 0:
		return start, false
	}
	return now, false
}

// age returns how many parts moment is before the part that begins at start.
func (m *windowModel) age(l *Limit, start, moment Micros) Micros {
	part, _ := m.lengths(l)
	return max(0, -floorDiv(moment-start, part))
}

// ages returns the age, at the time that decides, of every charge that may still count; the others are left out.
func (m *windowModel) ages(l *Limit, at Micros) (start Micros, ages map[int]Micros) {
	ages = map[int]Micros{}
	if len(m.all) == 0 {
		return m.begin(l, at), ages
	}
	start, fresh := m.roll(l, m.start(l), at)
	if fresh {
		return start, ages
	}
	// Charges from before the key was last idle were forgotten then.
	first, from := 0, m.begin(l, m.all[0].at)
	for i, c := range m.all[1:] {
		if from, fresh = m.roll(l, from, c.at); fresh {
			first = i + 1
		}
	}
	_, parts := m.lengths(l)
	for i := first; i < len(m.all); i++ {
		if age := m.age(l, start, m.all[i].at); age < parts {
			ages[i] = age
		}
	}
	return start, ages
}

func (m *windowModel) room(l *Limit, at Micros) int64 {
	start, ages := m.ages(l, at)
	part, parts := m.lengths(l)
	whole, oldest := new(big.Int), new(big.Int)
	for i, age := range ages {
		if age == parts-1 && l.Algorithm == SlidingWindow {
			oldest.Add(oldest, big.NewInt(m.all[i].units))
		} else {
			whole.Add(whole, big.NewInt(m.all[i].units))
		}
	}
	used := whole.Add(whole, weight(l.Overlap, oldest, start+part-at, part))
	return new(big.Int).Sub(big.NewInt(l.Quota), used).Int64()
}

// weight returns how much units weigh if covered of their part is covered.
func weight(overlap Overlap, units *big.Int, covered, part Micros) *big.Int {
	if overlap == OverlapWhole {
		return units
	}
	share := new(big.Int).Mul(units, big.NewInt(int64(covered)))
	quotient, rest := share.QuoRem(share, big.NewInt(int64(part)), new(big.Int))
	if overlap == OverlapUp && rest.Sign() > 0 {
		quotient.Add(quotient, big.NewInt(1))
	}
	return quotient
}

// charge adds units to the current part, whose count saturates.
func (m *windowModel) charge(l *Limit, at Micros, n int64, _ ID) {
	_, ages := m.ages(l, at)
	count := new(big.Int)
	for i, age := range ages {
		if age == 0 {
			count.Add(count, big.NewInt(m.all[i].units))
		}
	}
	m.all = append(m.all, charged{at, min(n, MaxQuota-count.Int64())})
}

func (m *windowModel) refuse(l *Limit, at Micros, n int64) { m.charge(l, at, n, 0) }

func (m *windowModel) back(l *Limit, at Micros, n int64, moment Micros, _ ID) (given int64) {
	start, ages := m.ages(l, at)
	_, parts := m.lengths(l)
	for age := parts - 1; age >= 0; age-- {
		if moment != Oldest && age != m.age(l, start, moment) {
			continue
		}
		for i := range m.all {
			if of, ok := ages[i]; ok && of == age {
				taken := min(n-given, m.all[i].units)
				m.all[i].units -= taken
				given += taken
			}
		}
	}
	if given > 0 {
		m.all = append(m.all, charged{at, 0}) // nothing is charged, but the state's time is now at
	}
	return given
}

func (m *windowModel) written(*Limit, Micros) {}

func floorDiv[N ~int64 | ~int](a, b N) N {
	q := a / b
	if a%b < 0 {
		q--
	}
	return q
}
