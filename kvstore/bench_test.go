package kvstore_test

import (
	"strconv"
	"testing"

	"github.com/slidegate/slidegate/kvstore"
	"github.com/slidegate/slidegate/kvstore/kvtest"
)

// BenchmarkDecision measures what a decision costs this process, over an engine that costs next to nothing.
func BenchmarkDecision(b *testing.B) {
	keys := make([]string, 10_000)
	for i := range keys {
		keys[i] = "user:" + strconv.Itoa(i)
	}
	for _, c := range []struct {
		name string
		keys int
		opts kvstore.Options
	}{
		{"one key", 1, kvstore.Options{}},
		{"many keys, remembered", len(keys), kvstore.Options{}},
		{"many keys, read", len(keys), kvstore.Options{Remember: -1}},
	} {
		b.Run(c.name, func(b *testing.B) {
			limiter := hourlyLimiter(b, newStore(b, &kvtest.Table{}, c.opts), 1_000_000_000)
			b.ReportAllocs()
			for i := 0; b.Loop(); i++ {
				if d, err := limiter.Allow(b.Context(), keys[i%c.keys]); err != nil || !d.Allowed {
					b.Fatal(d, err)
				}
			}
		})
	}
}
