package memstore

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/slidegate/slidegate/rule"
	"github.com/slidegate/slidegate/store"
)

// BenchmarkLineForms compares slots of lines with the one-part window, in alternating short rounds, and reports the fastest
// tenth of each in nanoseconds, which other processes disturb least. It has a fixed number of rounds: run it with
// -benchtime 1x.
func BenchmarkLineForms(b *testing.B) {
	const keys = 1 << 20
	names := make([]string, keys)
	for i := range names {
		names[i] = fmt.Sprintf("user:%07d", i)
	}
	for _, bench := range []struct {
		name   string
		keys   int
		quota  int64
		rounds int
		ops    int
	}{
		{"hot-admitted", 1, 1 << 30, 4_000, 200},
		{"hot-refused", 1, 1_000, 4_000, 200},
		{"million", keys, 600, 2_000, 500},
	} {
		b.Run(bench.name, func(b *testing.B) {
			var takers []*benchTaker
			for _, kind := range []struct {
				name  string
				limit rule.Limit
			}{
				{"one-part", rule.Limit{Algorithm: rule.SlidingWindow, Segments: 1}},
				{"bucket", rule.Limit{Algorithm: rule.TokenBucket}},
				{"6-parts", rule.Limit{Algorithm: rule.SlidingWindow, Segments: 6}},
				{"6-parts-whole", rule.Limit{Algorithm: rule.SlidingWindow, Segments: 6, Overlap: rule.OverlapWhole}},
				{"60-parts", rule.Limit{Algorithm: rule.SlidingWindow, Segments: 60}},
				{"60-parts-whole", rule.Limit{Algorithm: rule.SlidingWindow, Segments: 60, Overlap: rule.OverlapWhole}},
				{"default", rule.Limit{}},
			} {
				kind.limit.Quota, kind.limit.Window = bench.quota, 60_000_000
				takers = append(takers, newBenchTaker(b, kind.name, kind.limit))
			}
			for _, t := range takers {
				for range 2_000_000/bench.keys/1_000 + 1 {
					for _, name := range names[:bench.keys] {
						t.take(name, 1)
					}
				}
				if bench.name == "hot-refused" {
					t.take(names[0], bench.quota/2)
					for t.take(names[0], 1) {
					}
				}
			}
			random := uint64(1)
			for range bench.rounds {
				for _, t := range takers {
					begin := time.Now()
					for range bench.ops {
						random = random*6364136223846793005 + 1442695040888963407
						t.take(names[random>>33%uint64(bench.keys)], 1)
					}
					t.rounds = append(t.rounds, float64(time.Since(begin))/float64(bench.ops))
				}
			}
			for _, t := range takers {
				slices.Sort(t.rounds)
				b.ReportMetric(t.rounds[len(t.rounds)/10], t.name)
			}
			b.ReportMetric(0, "ns/op")
		})
	}
}

type benchTaker struct {
	name   string
	take   func(key string, cost int64) bool
	rounds []float64
}

// newBenchTaker returns a taker that decides by limit.
func newBenchTaker(b *testing.B, name string, limit rule.Limit) *benchTaker {
	s, err := New(Options{MaxBytes: 1 << 30})
	if err != nil {
		b.Fatal(err)
	}
	bound := store.Bind("bench", "", "", normal(b, limit))
	ctx := context.Background()
	return &benchTaker{name: name, take: func(key string, cost int64) bool {
		allowed, _, _, _, _, _, _ := s.TakeSingle(ctx, bound, key, cost)
		return allowed
	}}
}
