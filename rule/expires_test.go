package rule

import (
	"testing"

	"pgregory.net/rapid"
)

// A store may forget a state once it has expired.

// drawUsed returns the state that a random script left, and the time of its last step.
func drawUsed(t *rapid.T, l *Limit, origin Micros) (s State, now Micros) {
	now = origin
	var last Answer
	for range rapid.IntRange(0, 12).Draw(t, "steps") {
		st := drawStep(t, l, &s, now, &last)
		last, _, _ = decideStep(t, l, &s, st)
		now = st.at
	}
	return s, now
}

// From its expiry on, a state makes the same decisions as one never seen.
func TestExpiredIsLikeNeverSeen(t *testing.T) {
	property(t, 2_000, func(t *rapid.T) {
		l := drawLimit(t)
		kept, _ := drawUsed(t, &l, drawOrigin(t, &l))
		expires := l.Expires(&kept)
		if expires > MaxNow {
			return
		}
		var forgotten State
		now, last := max(0, expires), Answer{}
		for range rapid.IntRange(1, 5).Draw(t, "later") {
			st := drawStep(t, &l, &forgotten, now, &last)
			st.at = max(st.at, expires)
			before := kept.Clone()
			a, _, _ := decideStep(t, &l, &kept, st)
			b, _, _ := decideStep(t, &l, &forgotten, st)
			if a != b {
				t.Fatalf("%+v\nexpires at %d: %+v\nstep: %+v\nkept:      %+v\nforgotten: %+v", l, expires, before, st, a, b)
			}
			now, last = st.at, a
		}
	})
}

// No state expires while any of it still counts, and if all counts leave together it expires exactly then.
func TestExpiresNotBeforeItIsFree(t *testing.T) {
	property(t, 2_000, func(t *rapid.T) {
		l := drawLimit(t)
		s, now := drawUsed(t, &l, drawOrigin(t, &l))
		v := l.viewAt(&s, now)
		if v.Moved {
			return // its expiry is as far ahead as the state itself
		}
		expires, free := l.Expires(&s), now+l.resetAfter(&s, &v)
		if expires < free && free > now {
			t.Fatalf("%+v\n%+v expires at %d, but at %d some units still count until %d", l, s, expires, now, free)
		}
		atOnce := l.Algorithm == SlidingLog || l.Algorithm == InFlight || l.Calendar != 0
		if atOnce && len(s.Holds) == 0 && free > now && expires != free {
			t.Fatalf("%+v\n%+v expires at %d, but is free at %d", l, s, expires, free)
		}
		shape := l
		shape.Quota, shape.Overlap, shape.CountRefused, shape.Burst = 1, OverlapUp, false, min(1, l.Burst)
		if of := shape.Expires(&s); of != expires {
			t.Fatalf("expires at %d with its limit and at %d with its shape", expires, of)
		}
	})
}

func TestExpiresOfNothing(t *testing.T) {
	for _, l := range everyChoice() {
		if l.Quota = 5; l.Calendar == 0 {
			l.Window = Micros(max(1, l.Segments)) * second
		}
		l = normal(t, l)
		var s State
		if e := l.Expires(&s); e != 0 {
			t.Errorf("%s: a key never seen expires at %d", nameOfChoice(l), e)
		}
		l.TakeOne(&s, 100*second, 1)
		if e := l.Expires(&s); e <= 100*second {
			t.Errorf("%s: got expiry %d", nameOfChoice(l), e)
		}
		s.reset()
		if e := l.Expires(&s); e != 0 {
			t.Errorf("%s: a key forgotten expires at %d", nameOfChoice(l), e)
		}
	}
}
