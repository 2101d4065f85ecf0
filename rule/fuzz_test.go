package rule

import (
	"encoding/binary"
	"testing"
)

// Fuzzing checks that no input makes the rule panic, count out of range, or return an inexact time.

// FuzzDecide reads a limit and a script from bytes, plays it and checks the invariants of all limits.
func FuzzDecide(f *testing.F) {
	for algorithm := range byte(5) {
		for choices := range byte(12) {
			f.Add(append([]byte{algorithm, choices, choices * 5, 2, choices, 1, 0, 2, 9}, seedScript(algorithm+choices)...))
		}
	}
	f.Add([]byte{})
	f.Fuzz(func(t *testing.T, data []byte) {
		r := &source{data}
		if l, ok := r.limit(); ok {
			fuzzScript(t, &l, r)
		}
	})
}

// seedScript returns the bytes of an ordinary script, a different one for each n.
func seedScript(n byte) (script []byte) {
	for i := range byte(40) {
		script = append(script, i*(n+7), i*i+n, n^i*31)
	}
	return script
}

func fuzzScript(t *testing.T, l *Limit, r *source) {
	var s State
	var list admissions
	var last Answer
	now := Micros(r.number(0, int64(MaxNow)))
	for steps := 0; len(r.data) > 0 && steps < 100; steps++ {
		st := r.step(l, &s, now, &last)
		before := s.Clone()
		a, changed, cost := decideStep(t, l, &s, st)
		if !changed && !sameState(&before, &s) {
			t.Fatalf("reported as unchanged: %+v to %+v", before, s)
		}
		checkAnswer(t, l, &a)
		checkState(t, l, &s)
		checkTimes(t, l, &s, st, cost, &a)
		most := l.Quota
		if l.Algorithm == DefaultAlgorithm {
			most = DefaultLog
		}
		if int64(s.Log.Len()) > most {
			t.Fatalf("%d units in the log of quota %d", s.Log.Len(), l.Quota)
		}
		switch {
		case st.op == Reset, st.op == GiveBack, st.op == Settle, a.Flags&ClockMoved != 0:
			list = nil // from here on it may admit the same again
		case (st.op == Take || st.op == TakeUpTo) && a.Granted > 0:
			list.add(a.At, a.Granted)
		}
		now, last = st.at, a
	}
	if interval := hardInterval(l); interval > 0 && list.largest(interval) > l.Quota {
		t.Fatalf("%+v: admitted %d in an interval of %d: %v", l, list.largest(interval), interval, list)
	}
}

// source is what is left of a fuzzing input; after its end it returns zeros.
type source struct{ data []byte }

func (r *source) byte() byte {
	if len(r.data) == 0 {
		return 0
	}
	b := r.data[0]
	r.data = r.data[1:]
	return b
}

// number reads a number from least to most: near one of them, near a power of two, or any.
func (r *source) number(least, most int64) int64 {
	kind := r.byte()
	near := int64(kind >> 2)
	switch kind & 3 {
	case 0:
		return min(least+near, most)
	case 1:
		return max(most-near, least)
	case 2:
		return clamp(int64(1)<<min(near, 53)+int64(r.byte()%3)-1, least, most)
	}
	var bytes [8]byte
	r.data = r.data[copy(bytes[:], r.data):]
	return least + int64(binary.LittleEndian.Uint64(bytes[:])%uint64(most-least+1))
}

func (r *source) limit() (l Limit, ok bool) {
	l.Algorithm = Algorithm(r.byte() % 6)
	choices := r.byte()
	l.CountRefused = choices&1 == 1 && l.Algorithm != InFlight
	parts := Micros(1)
	switch l.Algorithm {
	case SlidingWindow:
		l.Overlap, l.Anchor = Overlap(choices>>1%3), Anchor(choices>>3&1)
		l.Segments = 1 + int(r.byte()%MaxSegments)
		parts = Micros(l.Segments)
	case FixedWindow:
		l.Anchor = Anchor(choices >> 3 & 1)
		if period := choices >> 4; period > 0 && period <= byte(Year) && l.Anchor == AnchorClock {
			l.Calendar, l.Zone = Period(period), someZones[int(choices&7)%len(someZones)]
			l, err := Limit{Calendar: l.Calendar, Zone: l.Zone, CountRefused: l.CountRefused, Quota: r.number(1, MaxQuota)}.Normalize()
			return l, err == nil
		}
	}
	l.Window = parts * Micros(r.number(int64((minWindow+parts-1)/parts), int64(MaxWindow/parts)))
	l.Quota = r.number(1, MaxQuota)
	if l.Algorithm == SlidingLog || l.Algorithm == InFlight {
		l.Quota = 1 + l.Quota%100
	}
	if l.Algorithm == TokenBucket {
		l.Burst = r.number(0, MaxQuota)
	}
	l, err := l.Normalize()
	return l, err == nil // all but a burst that takes too long to fill is in range by now
}

func (r *source) step(l *Limit, s *State, now Micros, last *Answer) step {
	how := r.byte()
	st := step{at: now, op: [8]Op{Take, Take, Take, TakeUpTo, Peek, Charge, GiveBack, Reset}[how&7]}
	if st.op == Reset {
		st.op = [4]Op{Reset, Settle, Settle, Renew}[r.byte()&3]
	}
	beside := Micros(r.byte()%3) - 1
	switch how >> 3 & 7 {
	case 0:
		st.at = now + beside
	case 1:
		if last.RetryAfter != Never {
			st.at = now + last.RetryAfter + beside
		}
	case 2:
		st.at = now + last.ResetAfter + beside
	case 3:
		st.at = ownTime(l, s, now) + beside + Micros(r.byte()%67)*max(1, l.part())
	case 4:
		st.at = ownTime(l, s, now) - l.Window + beside
	case 5:
		st.at = Micros(r.number(0, int64(MaxNow)))
	default:
		st.at = now + Micros(r.number(0, int64(l.Window)))
	}
	st.at = clamp(st.at, 0, MaxNow)
	switch room := max(0, l.viewAt(s, st.at).Room); how >> 6 {
	case 0:
		st.cost = 1
	case 1:
		st.cost = clamp(room+int64(r.byte()%3)-1, 0, MaxQuota)
	case 2:
		st.cost = r.number(0, l.Capacity())
	default:
		st.cost = r.number(0, MaxQuota)
	}
	if l.Algorithm == InFlight {
		st.cost, st.id = min(1, st.cost), 1+ID(r.byte()%10)
	}
	if st.op == Settle {
		st.used = min(r.number(0, MaxQuota), 1+2*st.cost)
	}
	if st.op == GiveBack || st.op == Settle {
		st.back = [3]Micros{Oldest, last.At, ownTime(l, s, now)}[r.byte()%3]
	}
	return st
}
