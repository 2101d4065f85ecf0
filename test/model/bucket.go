package model

import "math/big"

// bucketState is how much is missing, in 1/window of a unit, as of a time.
type bucketState struct {
	missing *big.Int // nil if the bucket was never charged
	asOf    Micros
	end     Micros // the bucket counts as full from here on
}

func (s *bucketState) clone() state {
	copied := *s
	if s.missing != nil {
		copied.missing = new(big.Int).Set(s.missing)
	}
	return &copied
}

func (s *bucketState) time(l *Limit, now Micros) (Micros, bool) {
	if s.missing == nil {
		return now, false
	}
	return max(now, s.asOf), s.asOf-now > l.window
}

func (s *bucketState) moveBack(_ *Limit, now Micros) {
	s.end -= s.asOf - now
	s.asOf = now
}

// debt returns what is missing at a time, by the rate of the limit.
func (s *bucketState) debt(l *Limit, at Micros) *big.Int {
	if s.over(l, at) {
		return new(big.Int)
	}
	left := new(big.Int).Sub(s.missing, product(l.Quota, at-s.asOf))
	if left.Sign() < 0 {
		return new(big.Int)
	}
	return left
}

func (s *bucketState) room(l *Limit, at Micros) int64 {
	return l.burst - min(1<<60, ceilDiv(s.debt(l, at), l.window))
}

// charge adds units, at most until a window's refill more than the whole bucket is missing. A refusal that counts empties the bucket.
func (s *bucketState) charge(l *Limit, at Micros, n int64, refused bool) {
	debt, deepest := s.debt(l, at), l.deepest()
	if refused {
		deepest = product(l.burst, l.window)
	}
	after := new(big.Int).Add(debt, product(n, l.window))
	if after.Cmp(deepest) > 0 {
		after = deepest
	}
	if after.Cmp(debt) < 0 {
		after = debt
	}
	if refused && after.Cmp(debt) == 0 {
		return
	}
	s.extend(l, at, after)
	s.missing, s.asOf = after, at
}

// deepest is how much can be missing after a charge: the whole bucket and a window's refill.
func (l *Limit) deepest() *big.Int { return product(min(most, l.burst+l.Quota), l.window) }

// extend moves the end to a window after a charge or, if that is later, to when the bucket is full. It never moves it nearer.
func (s *bucketState) extend(l *Limit, at Micros, missing *big.Int) {
	deepest := l.deepest()
	if missing.Cmp(deepest) < 0 {
		deepest = missing
	}
	end := at + max(l.window, ceilDiv(deepest, l.Quota))
	if s.debt(l, at).Sign() > 0 { // a full bucket has a new end
		end = max(end, s.end)
	}
	s.end = end
}

func (s *bucketState) giveBack(l *Limit, at, charged Micros, n int64) int64 {
	back := new(big.Int).Sub(product(n, l.window), product(l.Quota, max(0, at-charged)))
	return s.subtract(l, at, back)
}

func (s *bucketState) refund(l *Limit, at Micros, n int64) int64 {
	return s.subtract(l, at, product(n, l.window))
}

// subtract removes up to so much of what is missing, and leaves the rest, its time and its end as they are.
func (s *bucketState) subtract(l *Limit, at Micros, back *big.Int) int64 {
	if debt := s.debt(l, at); back.Cmp(debt) > 0 {
		back = debt
	}
	if back.Sign() <= 0 {
		return 0
	}
	if s.missing.Sub(s.missing, back); s.missing.Sign() == 0 {
		s.missing = nil
	}
	return ceilDiv(back, l.window)
}

func (s *bucketState) over(_ *Limit, at Micros) bool { return s.missing == nil || at >= s.end }
