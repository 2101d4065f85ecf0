//go:build !race

package denycache_test

import (
	"context"
	"testing"
	"time"

	"github.com/slidegate/slidegate"
	"github.com/slidegate/slidegate/layer/denycache"
	"github.com/slidegate/slidegate/memstore"
)

// TestNoAllocations: neither what is admitted nor what is refused from memory allocates. The race detector makes pools
// forget now and then, so it is not for that.
func TestNoAllocations(t *testing.T) {
	inner, err := memstore.New(memstore.Options{})
	if err != nil {
		t.Fatal(err)
	}
	ctx := context.Background()
	large := bound(t, slidegate.Limit{Name: "large", Quota: 1 << 40, Window: time.Hour})
	other := bound(t, slidegate.Limit{Name: "other", Quota: 1 << 40, Window: time.Hour})
	small := bound(t, slidegate.Limit{Name: "small", Quota: 1, Window: time.Hour})
	for _, below := range []slidegate.Store{inner, struct{ slidegate.Store }{inner}} {
		store := layered(t, below, denycache.Options{MaxAge: -1})
		batch := func(limits ...*slidegate.BoundLimit) []slidegate.Request {
			r := slidegate.Request{Group: "group", Answers: make([]slidegate.Answer, len(limits))}
			for _, limit := range limits {
				r.Charges = append(r.Charges, slidegate.Charge{Limit: limit, Key: "key", Cost: 1})
			}
			return []slidegate.Request{r}
		}
		one, two, refused := batch(large), batch(large, other), batch(large, small)
		many := append(batch(large), batch(small)...)
		reset := batch(large)
		reset[0].Op = slidegate.OpReset
		for _, test := range []struct {
			name string
			run  func()
		}{
			{"TakeOne, admitted", func() { store.TakeOne(ctx, large, "key", 1) }},
			{"TakeOne, refused", func() { store.TakeOne(ctx, small, "key", 1) }},
			{"Apply, admitted", func() { store.Apply(ctx, one) }},
			{"Apply, two admit", func() { store.Apply(ctx, two) }},
			{"Apply, one of two refuses", func() { store.Apply(ctx, refused) }},
			{"Apply, a batch", func() { store.Apply(ctx, many) }},
			{"Apply, reset", func() { store.Apply(ctx, reset) }},
		} {
			test.run()
			test.run()
			if got := testing.AllocsPerRun(200, test.run); got != 0 {
				t.Errorf("%s: %v allocations", test.name, got)
			}
		}
	}
}
