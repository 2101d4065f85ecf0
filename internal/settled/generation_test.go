package settled_test

import (
	"slices"
	"testing"

	"github.com/slidegate/slidegate/internal/settled"
	"github.com/slidegate/slidegate/rule"
	"pgregory.net/rapid"
)

const (
	hour  = rule.Micros(3600e6)
	start = 1_767_000_000 * rule.Micros(1e6)
)

// A store that keeps two generations knows every settlement for as long as it must, by the time of the key, and only
// settlements of that time make it full.
func TestGenerations(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		memory, most := rule.Micros(rapid.Int64Range(1_000, int64(2*rule.LongMemory)).Draw(t, "memory")), rapid.Int64Range(1, 20).Draw(t, "most")
		var newer, older struct {
			settled.Generation
			times []rule.Micros
		}
		now, latest := 100*rule.LongMemory, rule.Micros(0)
		var all []rule.Micros
		for range rapid.IntRange(1, 100).Draw(t, "settlements") {
			now += pause(t, memory, most)
			now = max(now, latest-memory/2) // a generation that is far ahead gives way
			latest = max(latest, now)
			at := now + rapid.SampledFrom([]rule.Micros{0, 0, 0, memory / 2}).Draw(t, "ahead")
			rotates := newer.Rotates(at, memory, most)
			if !rotates && newer.Count >= most {
				if young := count(all, at-2*memory); young < most { // they are not in order
					t.Fatalf("full at %d with %d settlements within %d, of at most %d: %v", at, young, memory, most, all)
				}
				continue
			}
			if rotates {
				older, newer = newer, older
				newer.Generation, newer.times = older.Next(), nil
			}
			newer.Add(at, memory)
			newer.times = append(newer.times, at)
			all = append(all, at)
			young := slices.Max(all) - memory // what was old once may have been forgotten, wherever the clock is now
			if known, must := count(newer.times, young)+count(older.times, young), count(all, young); known < must {
				t.Fatalf("at %d: knows %d of %d settlements within %d, at most %d: %v, %v, %v", at, known, must, memory, most, all, newer, older)
			}
			young = slices.Max(all) - rule.LongMemory
			if long := count(all, young); int64(len(all)) < most && count(newer.times, young)+count(older.times, young) < long {
				t.Fatalf("at %d: there is space, but not all %d settlements of the last ten minutes are known: %v", at, long, all)
			}
			if newer.Count > most || newer.Expires() < at+max(memory, rule.LongMemory) {
				t.Fatalf("at %d: %+v", at, newer)
			}
		}
	})
}

// pause returns a time between two settlements, at which something may change.
func pause(t *rapid.T, memory rule.Micros, most int64) rule.Micros {
	each := memory / rule.Micros(most)
	random := rule.Micros(rapid.Int64Range(-int64(memory)/2, int64(memory)).Draw(t, "pause"))
	return rapid.SampledFrom([]rule.Micros{0, 1, each / 2, each, memory, rule.LongMemory, random}).Draw(t, "which pause")
}

// count returns how many times are later than after.
func count(times []rule.Micros, after rule.Micros) (n int64) {
	for _, t := range times {
		if t > after {
			n++
		}
	}
	return n
}

// A generation from before the clock was set back by years gives way when it is full.
func TestGenerationFarAhead(t *testing.T) {
	g := settled.Generation{Began: start + 1000*hour, Newest: start + 1000*hour, Count: 5}
	if g.Rotates(start, hour, 6) || !g.Rotates(start, hour, 5) || g.Rotates(start+1000*hour, hour, 5) || g.Rotates(start+999*hour, hour, 5) {
		t.Error("a generation far ahead must rotate if it is full, and only then")
	}
}

// A generation is not forgotten before the one before it, whose records are older, even if limits of one address differ in their memory.
func TestGenerationOutlivesTheOneBefore(t *testing.T) {
	var older settled.Generation
	older.Add(start, 10*hour)
	newer := older.Next()
	newer.Add(start+hour, hour)
	if newer.Rotates(start+9*hour, hour, 1) {
		t.Error("it rotates, and drops what must still be remembered")
	}
	if got := newer.Expires(); got < older.Until {
		t.Errorf("expires at %d, before the generation before it at %d", got, older.Until)
	}
}
