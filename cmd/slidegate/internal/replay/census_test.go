package replay

import (
	"slices"
	"testing"

	"github.com/slidegate/slidegate"
	"github.com/slidegate/slidegate/rule"
	"pgregory.net/rapid"
)

// These tests check that the census counts every live state, and hardly any more.

// peakStates returns the most states, and the most bytes of states, that are live at one time, each extended by extra.
func peakStates(t tb, r *rule.Limit, index int, decided []modelDecision, extra rule.Micros) (keys, bytes int64) {
	t.Helper()
	all := map[string]liveState{}
	for i := range decided {
		v := &decided[i]
		s := liveState{until: r.Expires(&v.states[index]), bytes: 16}
		switch r.Algorithm {
		case rule.DefaultAlgorithm:
			s.bytes = 8 * int64(v.states[index].Log.Len())
			if v.states[index].InParts() {
				s.bytes = sizeOfParts(v.states[index].Counts)
			}
		case rule.SlidingLog:
			s.bytes = 8 * int64(v.states[index].Log.Len())
		case rule.TokenBucket:
			s.bytes = 32
		case rule.SlidingWindow:
			s.bytes = 8 * int64(r.Segments+2)
		}
		all[v.key] = s
		var nowKeys, nowBytes int64
		for _, s := range all {
			if s.until != 0 && s.until+extra > v.at {
				nowKeys++
				nowBytes += s.bytes
			}
		}
		keys, bytes = max(keys, nowKeys), max(bytes, nowBytes)
	}
	return keys, bytes
}

// sizeOfParts returns what parts take in the store in memory: a slot, a line if many of the older ones hold units, and another if one of
// them holds many.
func sizeOfParts(counts []int64) int64 {
	older := slices.DeleteFunc(slices.Clone(counts[1:]), func(n int64) bool { return n == 0 })
	switch most := slices.Max(append(older, 0)); {
	case len(older) <= 16 && most <= 511:
		return 64
	case most <= 255:
		return 128
	default:
		return 192
	}
}

func TestCensusCountsLiveStates(t *testing.T) {
	property(t, 500, func(t *rapid.T) {
		limits := drawLimits(t)
		reqs := drawTraffic(t, limits[0].Window, 80, forward)
		if rapid.Bool().Draw(t, "crowded") {
			for i := range reqs {
				reqs[i].key += string(rune('a' + rapid.IntRange(0, 25).Draw(t, "more keys")))
			}
		}
		decided := decideAll(t, limits, reqs)
		r := exactRun(t, limits)
		requests, _ := numbered(reqs)
		for i := range requests {
			r.decide(requests[i : i+1])
		}
		for i, own := range rulesOf(t, limits) {
			c := r.groups[0].measures[i].census
			keys, bytes := peakStates(t, &own, i, decided, 0)
			mostKeys, mostBytes := peakStates(t, &own, i, decided, c.width)
			if c.peak.keys < keys || c.peak.keys > mostKeys || c.peak.bytes < bytes || c.peak.bytes > mostBytes {
				t.Fatalf("%v: got %+v, want %d to %d keys and %d to %d bytes\n%+v",
					limits[i], c.peak, keys, mostKeys, bytes, mostBytes, reqs)
			}
			checkEmptied(t, c)
		}
	})
}

func exactRun(t tb, limits []slidegate.Limit) *run {
	t.Helper()
	r, err := newRun("", onlyGroup(limits), true)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// checkEmptied checks that everything added has been removed, in every bucket.
func checkEmptied(t tb, c *census) {
	t.Helper()
	for i, at := range c.expires {
		if at.keys < 0 || at.bytes < 0 {
			t.Fatalf("got bucket %d with %+v, want none", i, at)
		}
	}
	c.advance(c.now + 2*censusBuckets)
	if c.alive != (population{}) {
		t.Fatalf("got %+v after everything has expired, want none", c.alive)
	}
}

// With clocks that step back and jump ahead the figures are only plausible, but nothing panics, nothing is removed twice
// and nothing stays forever.
func TestCensusWithAnyClock(t *testing.T) {
	property(t, 1_000, func(t *rapid.T) {
		limits := drawLimits(t)
		reqs := drawTraffic(t, limits[0].Window, 80, jumping)
		requests, names := numbered(reqs)
		r := exactRun(t, limits)
		for i := range requests {
			r.decide(requests[i : i+1])
			for _, m := range r.groups[0].measures {
				if m.census.alive.keys < 0 || m.census.alive.keys > int64(len(names)) {
					t.Fatalf("%v: got %d live keys of %d\n%+v", limits, m.census.alive.keys, len(names), reqs[:i+1])
				}
			}
		}
		for _, m := range r.groups[0].measures {
			checkEmptied(t, m.census)
		}
	})
}

// The states with the longest lives: a bucket far larger than the quota, the longest window, the latest times.
func TestCensusAtRangeLimits(t *testing.T) {
	for _, text := range []string{
		"1/1ms token-bucket burst=150000000000", "1/1h token-bucket burst=40000", "10/43920h token-bucket",
		"1/43920h sliding-log", "1/43920h segments=60", "5/43920h", "5/43920h anchor=first", "5/43920h fixed-window anchor=first",
		"1/1ms", "7/1ms fixed-window", "9007199254740991/1ms token-bucket", "3/1ms token-bucket count-refused",
	} {
		limit := slidegate.MustParseLimit(text)
		w := rule.Micros(limit.Window.Microseconds())
		for _, start := range []rule.Micros{1, origin, rule.MaxNow - 3*w} {
			r := exactRun(t, []slidegate.Limit{limit})
			capacity := r.groups[0].lanes[0].limit.Capacity()
			now := start
			for i, step := range []rule.Micros{0, 1, w - 1, -w, -w, w + 1, -2 * w, 2 * w, -10 * w, 10 * w, -rule.MaxNow, rule.MaxNow, -1} {
				now = min(max(1, now+step), rule.MaxNow)
				r.decide([]request{{at: now, cost: capacity, key: uint32(i % 2)}})
				r.decide([]request{{at: now, cost: 1, key: uint32(i % 3)}})
			}
			checkEmptied(t, r.groups[0].measures[0].census)
		}
	}
}

// A census by hand. A horizon of 127 makes buckets of 2 microseconds.
func TestCensusByHand(t *testing.T) {
	c := newCensus(127)
	if c.width != 2 {
		t.Fatalf("got buckets of width %d, want 2", c.width)
	}
	a, b := liveState{until: 110, bytes: 8}, liveState{until: 105, bytes: 100}
	c.change(100, liveState{}, a)
	c.change(101, liveState{}, b)
	if c.peak != (population{2, 108}) {
		t.Fatalf("got %+v, want 2 keys of 108 bytes", c.peak)
	}
	c.change(102, a, liveState{until: 111, bytes: 16})
	c.change(106, liveState{}, liveState{until: 107, bytes: 20}) // b expired in the bucket of 104 and 105
	if c.peak != (population{2, 116}) || c.alive != (population{2, 36}) {
		t.Fatalf("got at most %+v, now %+v, want 2 of 116 bytes, now 2 of 36", c.peak, c.alive)
	}
	c.change(106, b, liveState{until: 120, bytes: 1}) // its old state has been removed already
	if c.alive != (population{3, 37}) || c.peak != (population{3, 116}) {
		t.Fatalf("got at most %+v, now %+v, want 3 of 116 bytes, now 3 of 37", c.peak, c.alive)
	}
}
