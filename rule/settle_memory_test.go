package rule

import (
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// A store that keeps two generations knows every settlement for as long as it must, by the time of the key, and only
// settlements of that time make it full.
func TestGenerations(t *testing.T) {
	property(t, 2_000, func(t *rapid.T) {
		memory, most := draw(t, "memory", MinWindow, 2*LongMemory), rapid.Int64Range(1, 20).Draw(t, "most")
		var newer, older struct {
			Generation
			times []Micros
		}
		now, latest := 100*LongMemory, Micros(0)
		var all []Micros
		for range rapid.IntRange(1, 100).Draw(t, "settlements") {
			now += oneOf(t, "pause", 0, 1, memory/Micros(most)/2, memory/Micros(most), memory, LongMemory, spread(t, "pause", -memory/2, memory))
			now = max(now, latest-memory/2) // a generation that is far ahead gives way
			latest = max(latest, now)
			at := now + oneOf(t, "ahead", 0, 0, 0, memory/2)
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
			newer.Add(at)
			newer.times = append(newer.times, at)
			all = append(all, at)
			young := slices.Max(all) - memory // what was old once may have been forgotten, wherever the clock is now
			if known, must := count(newer.times, young)+count(older.times, young), count(all, young); known < must {
				t.Fatalf("at %d: knows %d of %d settlements within %d, at most %d: %v, %v, %v", at, known, must, memory, most, all, newer, older)
			}
			young = slices.Max(all) - LongMemory
			if long := count(all, young); int64(len(all)) < most && count(newer.times, young)+count(older.times, young) < long {
				t.Fatalf("at %d: there is space, but not all %d settlements of the last ten minutes are known: %v", at, long, all)
			}
			if newer.Count > most || newer.Expires(memory) < at+max(memory, LongMemory) {
				t.Fatalf("at %d: %+v", at, newer)
			}
		}
	})
}

// count returns how many times are later than after.
func count(times []Micros, after Micros) (n int64) {
	for _, t := range times {
		if t > after {
			n++
		}
	}
	return n
}

// A generation from before the clock was set back by years gives way when it is full.
func TestGenerationFarAhead(t *testing.T) {
	g := Generation{Began: start + 1000*hour, Newest: start + 1000*hour, Count: 5}
	if g.Rotates(start, hour, 6) || !g.Rotates(start, hour, 5) || g.Rotates(start+1000*hour, hour, 5) || g.Rotates(start+999*hour, hour, 5) {
		t.Error("a generation far ahead must rotate if it is full, and only then")
	}
}
