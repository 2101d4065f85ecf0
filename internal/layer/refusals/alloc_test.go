//go:build !race

package refusals_test

import (
	"context"
	"testing"
	"time"

	"github.com/slidegate/slidegate"
	"github.com/slidegate/slidegate/internal/layer/refusals"
	"github.com/slidegate/slidegate/memstore"
	"github.com/slidegate/slidegate/rule"
	"github.com/slidegate/slidegate/store"
)

// TestNoAllocations checks that neither admissions nor refusals from memory allocate. The race detector makes pools drop
// items now and then, so the test is not built with it.
func TestNoAllocations(t *testing.T) {
	inner, err := memstore.New(memstore.Options{})
	if err != nil {
		t.Fatal(err)
	}
	ctx := context.Background()
	large := bound(t, slidegate.Limit{Name: "large", Quota: 1 << 40, Window: time.Hour})
	other := bound(t, slidegate.Limit{Name: "other", Quota: 1 << 40, Window: time.Hour})
	small := bound(t, slidegate.Limit{Name: "small", Quota: 1, Window: time.Hour})
	for _, below := range []store.Store{inner, struct{ store.Store }{inner}} {
		st := layered(t, below, refusals.Options{MaxAge: -1})
		batch := func(limits ...*store.Limit) []store.Request {
			r := store.Request{Group: "group", Answers: make([]rule.Answer, len(limits))}
			for _, limit := range limits {
				r.Charges = append(r.Charges, store.Charge{Limit: limit, Key: "key", Cost: 1})
			}
			return []store.Request{r}
		}
		one, two, refused := batch(large), batch(large, other), batch(large, small)
		many := append(batch(large), batch(small)...)
		reset := batch(large)
		reset[0].Op = rule.Reset
		for _, test := range []struct {
			name string
			run  func()
		}{
			{"TakeSingle, admitted", func() { st.TakeSingle(ctx, large, "key", 1) }},
			{"TakeSingle, refused", func() { st.TakeSingle(ctx, small, "key", 1) }},
			{"Apply, admitted", func() { st.Apply(ctx, one) }},
			{"Apply, both admit", func() { st.Apply(ctx, two) }},
			{"Apply, one of two refuses", func() { st.Apply(ctx, refused) }},
			{"Apply, a batch", func() { st.Apply(ctx, many) }},
			{"Apply, reset", func() { st.Apply(ctx, reset) }},
		} {
			test.run()
			test.run()
			if got := testing.AllocsPerRun(200, test.run); got != 0 {
				t.Errorf("%s: got %v allocations, want 0", test.name, got)
			}
		}
	}
}
