package rule

import (
	"math/rand/v2"
	"testing"
)

// TakeUpToOne decides like TakeUpTo over a single limit.
func TestTakeUpToOne(t *testing.T) {
	for _, l := range []Limit{
		{Algorithm: SlidingWindow, Quota: 10, Window: second, Segments: 1},
		{Algorithm: SlidingWindow, Quota: 10, Window: second, Segments: 4, Overlap: OverlapWhole, CountDenied: true},
		{Algorithm: FixedWindow, Quota: 10, Window: second},
		{Algorithm: SlidingLog, Quota: 10, Window: second},
		{Algorithm: TokenBucket, Quota: 10, Window: second, Burst: 5},
	} {
		random := rand.New(rand.NewPCG(1, uint64(l.Algorithm)))
		var one, other State
		short := 0
		for now, n := 1000*second, 0; n < 1000; n++ {
			now += Micros(random.Int64N(int64(second / 4)))
			cost := random.Int64N(6)
			a, changed := l.TakeUpToOne(&one, now, cost)
			var answers [1]Answer
			items := []Item{{Limit: &l, State: &other, Cost: cost}}
			Decide(TakeUpTo, items, now, answers[:])
			if a != answers[0] || changed != items[0].Changed {
				t.Fatalf("%v: up to %d at %d: %+v, changed is %v; want %+v, %v", l, cost, now, a, changed, answers[0], items[0].Changed)
			}
			if a.Allowed && a.Granted < cost {
				short++
			}
		}
		if short == 0 {
			t.Errorf("%v: every request was granted in full", l)
		}
	}
}
