package statecode_test

import (
	"bytes"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/slidegate/slidegate/internal/statecode"
	"github.com/slidegate/slidegate/rule"
)

// read reads a state, and reports whether the bytes are one.
func read(limit *rule.Limit, from []byte) (state rule.State, ok bool) {
	src := &statecode.Reader{Rest: from}
	statecode.Read(src, limit, &state)
	return state, !src.Failed() && !src.More()
}

const (
	window = rule.Micros(60e6)
	begin  = rule.Micros(1_800_000_000e6)
)

// limits has one of every shape that states differ by.
func limits(t testing.TB) (all []rule.Limit) {
	t.Helper()
	for _, l := range []rule.Limit{
		{Algorithm: rule.SlidingWindow, Quota: 10, Window: window, Segments: 1},
		{Algorithm: rule.SlidingWindow, Quota: 10, Window: window, Segments: 60, Overlap: rule.OverlapWhole},
		{Algorithm: rule.SlidingWindow, Quota: rule.MaxQuota, Window: window, Segments: 6, Anchor: 1},
		{Algorithm: rule.FixedWindow, Quota: 10, Window: window},
		{Algorithm: rule.FixedWindow, Quota: 10, Calendar: rule.Month, Zone: "Europe/Berlin"},
		{Quota: 10, Window: window},
		{Quota: 1000, Window: window},
		{Algorithm: rule.SlidingLog, Quota: 10, Window: window},
		{Algorithm: rule.TokenBucket, Quota: 10, Burst: 7, Window: window},
		{Algorithm: rule.TokenBucket, Quota: 3, Burst: 1_000_000, Window: 7 * window},
		{Algorithm: rule.InFlight, Quota: 10, Window: window},
	} {
		l, err := l.Normalize()
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, l)
	}
	return all
}

// step applies a random operation to a state at a random time, which may be far back.
func step(random *rand.Rand, limit *rule.Limit, state *rule.State, now *rule.Micros) {
	*now += rule.Micros(random.Int64N(int64(window / 4)))
	if random.IntN(40) == 0 {
		*now = max(0, *now-rule.Micros(random.Int64N(int64(3*window))))
	}
	if random.IntN(200) == 0 {
		*now = rule.Micros(random.Int64N(int64(window))) // just after the epoch
	}
	if limit.Algorithm != rule.InFlight && random.IntN(3) == 0 {
		limit.Hold = window
	}
	ops := []rule.Op{rule.Take, rule.Take, rule.Take, rule.TakeUpTo, rule.Charge, rule.GiveBack, rule.Reset}
	items := []rule.Item{{Limit: limit, State: state, Cost: 1 + random.Int64N(4), ID: rule.ID(1 + random.IntN(9)), At: rule.Oldest, Hold: true}}
	if limit.Algorithm == rule.InFlight {
		items[0].Cost = 1
	}
	rule.Decide(ops[random.IntN(len(ops))], items, *now, make([]rule.Answer, 1))
}

// A state that was written is read back as one that is written, and decides, the same.
func TestRoundTrip(t *testing.T) {
	const seed = 19
	random := rand.New(rand.NewPCG(seed, seed))
	for _, limit := range limits(t) {
		var state rule.State
		now := begin
		for i := range 5_000 {
			step(random, &limit, &state, &now)
			if limit.Expires(&state) == 0 {
				continue // an absent state is not written
			}
			written := statecode.Append([]byte("before"), limit.Algorithm, &state)
			got, ok := read(&limit, written[len("before"):])
			if !ok {
				t.Fatalf("%+v: step %d: %+v is not read", limit, i, state)
			}
			if again := statecode.Append([]byte("before"), limit.Algorithm, &got); !bytes.Equal(again, written) {
				t.Fatalf("%+v: step %d: %+v becomes %+v", limit, i, state, got)
			}
			if !slices.Equal(got.Slots, state.Slots) {
				t.Fatalf("%+v: step %d: the slots %v become %v", limit, i, state.Slots, got.Slots)
			}
			for _, later := range []rule.Micros{0, 1, limit.Window / 3, limit.Window} {
				original, copied := state.Clone(), got.Clone()
				want, _ := limit.TakeOne(&original, now+later, 1)
				if a, _ := limit.TakeOne(&copied, now+later, 1); limit.Algorithm != rule.InFlight && a != want {
					t.Fatalf("%+v: step %d: %+v decides %+v, want %+v", limit, i, got, a, want)
				}
			}
		}
	}
}

// No bytes make Read panic, nor a decision on a state that it accepts; and each state has only one encoding.
func FuzzRead(f *testing.F) {
	all := limits(f)
	random := rand.New(rand.NewPCG(1, 1))
	for i := range all {
		var state rule.State
		now := begin
		for range 20 {
			step(random, &all[i], &state, &now)
		}
		f.Add(uint8(i), statecode.Append(nil, all[i].Algorithm, &state))
	}
	f.Fuzz(func(t *testing.T, which uint8, from []byte) {
		limit := all[int(which)%len(all)]
		state, ok := read(&limit, from)
		if !ok {
			return
		}
		written := statecode.Append(nil, limit.Algorithm, &state)
		again, ok := read(&limit, written)
		if !ok || !bytes.Equal(statecode.Append(nil, limit.Algorithm, &again), written) {
			t.Errorf("%+v: %q is read as %+v, which is not read: %v", limit, from, state, ok)
		}
		for _, now := range []rule.Micros{0, begin, rule.MaxNow} {
			if limit.Algorithm != rule.InFlight {
				copied := state.Clone()
				limit.TakeOne(&copied, now, 1)
			}
			limit.Used(&state, now)
			limit.Expires(&state)
		}
	})
}

// Truncated bytes, and bytes with more behind them, are not a state.
func TestTruncatedStatesAreRejected(t *testing.T) {
	for _, limit := range limits(t) {
		var state rule.State
		now := begin
		items := []rule.Item{{Limit: &limit, State: &state, Cost: 1, ID: 7}}
		rule.Decide(rule.Take, items, now, make([]rule.Answer, 1))
		written := statecode.Append(nil, limit.Algorithm, &state)
		for n := range written {
			if _, ok := read(&limit, written[:n]); ok {
				t.Errorf("%+v: %d of %d bytes are read", limit, n, len(written))
			}
		}
		if _, ok := read(&limit, append(written, 0)); ok {
			t.Errorf("%+v: a byte too many is read", limit)
		}
	}
}
