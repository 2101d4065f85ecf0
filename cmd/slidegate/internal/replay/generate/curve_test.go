package generate

import (
	"testing"
	"time"

	"github.com/slidegate/slidegate/rule"
)

// steps is a curve for tests.
type steps []piece

func (s steps) piece(i int64) piece { return s[i] }
func (s steps) total() (sum uint64) {
	for _, p := range s {
		sum += p.weight
	}
	return sum
}

func TestStretch(t *testing.T) {
	const quarter = 1 << 62
	for _, c := range []struct {
		name  string
		curve curve
		times [5]rule.Micros // at the beginning, a quarter, a half, three quarters, and the end
	}{
		{"flat", flat(1_000, 1_100), [5]rule.Micros{1_000, 1_025, 1_050, 1_075, 1_099}},
		{"two", equalPieces{{0, 100, 1}, {200, 300, 1}}, [5]rule.Micros{0, 50, 200, 250, 299}},
		{"weights", steps{{0, 100, 1}, {100, 200, 3}}, [5]rule.Micros{0, 100, 133, 166, 199}},
		{"nothing in between", steps{{0, 100, 4}, {100, 200, 0}, {200, 300, 4}}, [5]rule.Micros{0, 50, 200, 250, 299}},
	} {
		s := newStretch(c.curve)
		for i, moment := range []uint64{0, quarter, 2 * quarter, 3 * quarter, 1<<64 - 1} {
			if got := s.at(moment); got != c.times[i] {
				t.Errorf("%s: moment %d is at %d, want %d", c.name, i, got, c.times[i])
			}
		}
	}
}

func TestRate(t *testing.T) {
	for _, c := range []struct {
		at   string
		want uint64 // percent * 60 * 5, at weekends * 3
	}{
		{"2026-01-05T15:00:00Z", 100 * 300}, // Monday
		{"2026-01-05T03:30:00Z", 8 * 300},
		{"2026-01-05T06:30:00Z", 24 * 300}, // between 18 and 30
		{"2026-01-05T06:15:00Z", 21 * 300},
		{"2026-01-05T23:20:00Z", 24 * 300}, // between 27 and 18
		{"2026-01-09T15:00:00Z", 100 * 300},
		{"2026-01-10T15:00:00Z", 100 * 180}, // Saturday
		{"2026-01-11T23:59:00Z", 27*3 + 18*177},
		{"2026-01-12T00:00:00Z", 18 * 300},
	} {
		at, err := time.Parse(time.RFC3339, c.at)
		if err != nil {
			t.Fatal(err)
		}
		if got := rate(rule.Micros(at.UnixMicro())); got != c.want {
			t.Errorf("the rate at %s is %d, want %d", c.at, got, c.want)
		}
	}
}

// The pieces of a week cover the whole time without gaps, even if it does not begin at a step.
func TestWeekHasNoGap(t *testing.T) {
	from := rule.Micros(time.Date(2026, 1, 5, 0, 2, 0, 0, time.UTC).UnixMicro())
	w := week{from, from + 10*minuteMicros}
	at, sum := from, uint64(0)
	for i, minutes := range []rule.Micros{3, 5, 2} {
		p := w.piece(int64(i))
		if p.start != at || p.end != at+minutes*minuteMicros {
			t.Errorf("piece %d is %d to %d, want it to begin at %d and have %d minutes", i, p.start, p.end, at, minutes)
		}
		at = p.end
		sum += p.weight
	}
	if w.total() != sum || at != w.to {
		t.Errorf("the total is %d, want %d; the pieces end at %d, want %d", w.total(), sum, at, w.to)
	}
}

func TestLongestWeekFits(t *testing.T) {
	w := week{0, rule.Micros(maxSpan / time.Microsecond)}
	if sum := w.total(); sum > 1<<63 || sum < 1<<60 {
		t.Errorf("the total of ten years is %d", sum)
	}
}

func TestEdgePlan(t *testing.T) {
	for _, c := range []struct {
		requests          int64
		users             int
		used, group, keys int64
		first, last       int64 // the minutes after From of the first and the last burst
	}{
		{90_000, 1_000, 59, 12, 48, 1, 59},      // 750 bursts at 59 boundaries
		{1_200, 1_000, 10, 1, 20, 3, 57},        // 59/20 = 2.95 and 19*59/20 = 56.05, from minute 1
		{1, 1_000, 1, 1, 20, 30, 30},            // 59/2 = 29.5, the middle
		{90_000, 10, 59, 5, 10, 1, 59},          // half of the keys
		{90_000, 1, 59, 1, 1, 1, 59},            // the only one
		{9_000_000, 1_000, 59, 500, 1e3, 1, 59}, // 1271 a boundary, if there were enough keys
	} {
		o := Options{Keys: c.users}.withDefaults()
		p := planEdges(o, c.requests)
		if p.used != c.used || p.group != c.group || p.keys != c.keys {
			t.Errorf("%d requests, %d users: got %+v, want %d boundaries, %d of %d keys", c.requests, c.users, p, c.used, c.group, c.keys)
		}
		from, _ := o.interval()
		for i, minute := range map[int64]int64{0: c.first, p.used - 1: c.last} {
			boundary := from + rule.Micros(minute)*minuteMicros
			if got, want := p.piece(i), (piece{boundary - 2_400_000, boundary + 2_400_000, 1}); got != want {
				t.Errorf("%d requests: burst %d is %v, want %v", c.requests, i, got, want)
			}
		}
	}
}

// A burst stays within the span, even if the boundary is at its end.
func TestEdgePlanIsCut(t *testing.T) {
	o := Options{Span: 2 * time.Minute, From: time.Unix(59, 0)}.withDefaults()
	p := planEdges(o, 240) // the boundaries are after 60 s and 120 s, the span ends after 179 s
	if got, want := p.piece(0), (piece{59e6, 62.4e6, 1}); got != want {
		t.Errorf("the first burst is %v, want %v", got, want)
	}
	o.Span = 62 * time.Second
	p = planEdges(o, 240)
	if got, want := p.piece(1), (piece{117.6e6, 121e6, 1}); got != want {
		t.Errorf("the last burst is %v, want %v", got, want)
	}
}

func TestRaids(t *testing.T) {
	for seed := range uint64(1_000) {
		r := raids(random(seed, forRaids), 0, 1_200)
		for i, p := range r {
			if third := rule.Micros(400 * i); p.start < third || p.end > third+400 || p.end-p.start != 100 {
				t.Fatalf("seed %d: got raid %d at %v", seed, i, p)
			}
		}
	}
}
