package lease_test

import (
	"context"
	"testing"
	"time"

	"github.com/slidegate/slidegate"
	"github.com/slidegate/slidegate/internal/layer/lease"
	"github.com/slidegate/slidegate/memstore"
)

// BenchmarkHot measures a decision made from a lease: of one limit, and of two with different keys.
func BenchmarkHot(b *testing.B) {
	s := lease.New(newDistant(b, memstore.Options{}), lease.Options{})
	b.Cleanup(func() { _ = s.Close(context.Background()) })
	limit := slidegate.Limit{Name: "user", Quota: 1 << 40, Window: time.Minute, Segments: 60, Overlap: slidegate.OverlapWhole, Lease: true}
	global := limit
	global.Name = "global"
	l, err := slidegate.New(s, limit)
	if err != nil {
		b.Fatal(err)
	}
	ctx := b.Context()
	b.Run("one", func(b *testing.B) {
		b.ReportAllocs()
		b.RunParallel(func(p *testing.PB) {
			for p.Next() {
				if d, err := l.Allow(ctx, "k"); err != nil || !d.Allowed {
					b.Errorf("got %+v, %v, want allowed", d, err)
				}
			}
		})
	})
	b.Run("two", func(b *testing.B) {
		b.ReportAllocs()
		b.RunParallel(func(p *testing.PB) {
			for p.Next() {
				d, err := l.For(slidegate.Claim{Limit: limit, Key: "k", Cost: 1}, slidegate.Claim{Limit: global, Cost: 1}).Allow(ctx)
				if err != nil || !d.Allowed {
					b.Errorf("got %+v, %v, want allowed", d, err)
				}
			}
		})
	})
}
