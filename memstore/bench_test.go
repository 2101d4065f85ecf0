package memstore_test

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/slidegate/slidegate"
	"github.com/slidegate/slidegate/memstore"
)

// benchLimits contains one limit of each form, with quotas large enough to admit every request of a benchmark.
var benchLimits = map[string]slidegate.Limit{
	"window": {Quota: 1 << 30, Window: time.Minute},
	"log":    {Quota: 100, Window: time.Minute, Algorithm: slidegate.SlidingLog},
	"parts6": {Quota: 60_000, Window: time.Minute, Segments: 6, Overlap: slidegate.OverlapWhole},
	"bucket": {Quota: 1 << 20, Window: time.Second, Algorithm: slidegate.TokenBucket},
}

func benchKeys(n int) []string {
	keys := make([]string, n)
	for i := range keys {
		keys[i] = fmt.Sprintf("user:%08d", i)
	}
	return keys
}

// Decisions about a million keys, no key twice in a row.
func BenchmarkUniform(b *testing.B) {
	keys := benchKeys(1 << 20)
	for _, name := range []string{"window", "log", "parts6", "bucket"} {
		b.Run(name, func(b *testing.B) {
			limiter := newLimiter(b, open(b, memstore.Options{MaxBytes: 1 << 30}), benchLimits[name])
			for _, key := range keys {
				if _, err := limiter.Allow(context.Background(), key); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportAllocs()
			b.ResetTimer()
			var seed atomic.Uint32
			b.RunParallel(func(pb *testing.PB) {
				for x := seed.Add(0x9e3779b9); pb.Next(); {
					x = x*1664525 + 1013904223
					if _, err := limiter.Allow(context.Background(), keys[x>>12]); err != nil {
						b.Fatal(err)
					}
				}
			})
		})
	}
}

// Decisions about one key that is always admitted, and one that is always refused.
func BenchmarkHot(b *testing.B) {
	for _, name := range []string{"window", "log", "parts6", "bucket"} {
		for _, refused := range []bool{false, true} {
			limit := benchLimits[name]
			switch {
			case refused:
				limit.Quota, limit.Window = 10, time.Hour
			case name == "log":
				limit.Quota, limit.Window = 10_000, time.Millisecond // the largest rate of a log
			}
			b.Run(fmt.Sprintf("%s/refused=%v", name, refused), func(b *testing.B) {
				limiter := newLimiter(b, open(b, memstore.Options{}), limit)
				for range 10 {
					allow(b, limiter, "user:00000001", 1)
				}
				b.ReportAllocs()
				b.ResetTimer()
				b.RunParallel(func(pb *testing.PB) {
					for pb.Next() {
						if _, err := limiter.Allow(context.Background(), "user:00000001"); err != nil {
							b.Fatal(err)
						}
					}
				})
			})
		}
	}
}

// Decisions about one key under two limits.
func BenchmarkTwoLimits(b *testing.B) {
	for _, names := range [][2]string{{"window", "parts6"}, {"window", "log"}} {
		b.Run(names[1], func(b *testing.B) {
			first, second := benchLimits[names[0]], benchLimits[names[1]]
			limiter := newLimiter(b, open(b, memstore.Options{}), first, second)
			b.ReportAllocs()
			b.ResetTimer()
			for b.Loop() {
				if _, err := limiter.Allow(context.Background(), "user:00000001"); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// New keys, each of which replaces another one.
func BenchmarkFlood(b *testing.B) {
	for _, name := range []string{"window", "log", "parts6", "bucket"} {
		b.Run(name, func(b *testing.B) {
			limiter := newLimiter(b, open(b, memstore.Options{MaxBytes: 4 << 20}), benchLimits[name])
			n := 0
			next := func() string { n++; return fmt.Sprintf("user:%08d", n) }
			for range 200_000 {
				allow(b, limiter, next(), 1)
			}
			b.ReportAllocs()
			b.ResetTimer()
			for b.Loop() {
				if _, err := limiter.Allow(context.Background(), next()); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
