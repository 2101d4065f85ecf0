package memstore

import (
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/slidegate/slidegate/rule"
)

// A stored state can be loaded again, whatever the number of slots, and no line is in use unnecessarily.
func TestSlotsLineMatchesTheRule(t *testing.T) {
	Alone(t)
	for seed := range uint64(200) {
		random := rand.New(rand.NewPCG(seed, 2))
		window := logWindows[random.IntN(len(logWindows))]
		memory, taken := unlimitedSlab()
		f := newSlotsForm(memory, window)
		limit := &rule.Limit{Algorithm: rule.InFlight, Quota: 1 + random.Int64N(30), Window: window}
		var l line
		l[hashWord].Store(7)
		now := testStart
		var want, got rule.State
		for range 300 {
			now = min(rule.MaxNow, max(0, now+rule.Micros(random.Int64N(int64(window)))/10-window/100))
			if random.IntN(50) == 0 {
				now = max(0, now-2*window)
			}
			op := []rule.Op{rule.Take, rule.Take, rule.Take, rule.Charge, rule.GiveBack, rule.Renew, rule.Reset}[random.IntN(6+random.IntN(20)/19)]
			id := rule.ID(random.Uint64N(40))
			decide := func(s *rule.State) (changed bool, answer rule.Answer) {
				items := []rule.Item{{Limit: limit, State: s, Cost: 1, At: 1, ID: id}}
				answers := make([]rule.Answer, 1)
				rule.Decide(op, items, now, answers)
				return items[0].Changed, answers[0]
			}
			_, expected := decide(&want)
			control, _ := l.acquire()
			f.load(&l, control, &got)
			changed, answer := decide(&got)
			if answer != expected {
				t.Fatalf("seed %d: %+v, want %+v", seed, answer, expected)
			}
			if changed {
				control, _ = f.store(&l, control, &got)
			}
			l.release(control)
			f.load(&l, l[controlWord].Load(), &got)
			if !slices.Equal(got.Slots, want.Slots) {
				t.Fatalf("seed %d: %v, want %v", seed, got.Slots, want.Slots)
			}
			if n := linesInUse(memory); n != heldLines(len(want.Slots)) {
				t.Fatalf("seed %d: %d slots take %d lines", seed, len(want.Slots), n)
			}
			checkNoLine(t)
			if e := f.expires(&l, l[controlWord].Load()); e != limit.Expires(&want) {
				t.Fatalf("seed %d: expires at %d, want %d", seed, e, limit.Expires(&want))
			}
			if w := f.weight(&l, l[controlWord].Load(), now); w < limit.Used(&want, now) && limit.Expires(&want) > now {
				t.Fatalf("seed %d: got a weight of %d, want %d", seed, w, limit.Used(&want, now))
			}
		}
		if control := f.clear(&l, l[controlWord].Load()); f.expires(&l, control) != 0 {
			t.Fatalf("seed %d: a cleared slot expires", seed)
		}
		memory.trim()
		if n := taken.now.Load(); n != 0 {
			t.Fatalf("seed %d: %d bytes were not released", seed, n)
		}
	}
}
