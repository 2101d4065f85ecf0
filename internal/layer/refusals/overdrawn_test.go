package refusals_test

import (
	"context"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/slidegate/slidegate"
	"github.com/slidegate/slidegate/internal/layer/refusals"
	"github.com/slidegate/slidegate/rule"
	"github.com/slidegate/slidegate/store"
	"github.com/slidegate/slidegate/storetest"
)

// applyOne decides one request.
func applyOne(t *testing.T, st store.Store, op rule.Op, limit *store.Limit, cost int64) rule.Answer {
	t.Helper()
	r := store.Request{Op: op, Charges: []store.Charge{{Limit: limit, Key: "key", Cost: cost}}, Answers: make([]rule.Answer, 1)}
	if err := st.Apply(context.Background(), []store.Request{r}); err != nil {
		t.Fatal(err)
	}
	return r.Answers[0]
}

// Two buckets of one address, as plans make them: what one takes can shorten the wait that the other reported.
func TestBucketsOfOneAddress(t *testing.T) {
	for seed := range uint64(300) {
		random := rand.New(rand.NewPCG(seed, 0))
		clock := storetest.NewClock(epoch)
		below := memory(t, clock)
		cache := layered(t, below, refusals.Options{MaxAge: -1, Now: local(clock)})
		var limits []*store.Limit
		for range 3 {
			limits = append(limits, bound(t, slidegate.Limit{
				Name: "plan", Quota: 1 + random.Int64N(20), Window: time.Second, Algorithm: slidegate.TokenBucket,
				Burst: 1 + random.Int64N(1<<random.IntN(11)),
			}))
		}
		for step := range 300 {
			limit := limits[random.IntN(len(limits))]
			cost := 1 + random.Int64N(limit.Rule().Burst)
			truth := applyOne(t, below, rule.Peek, limit, cost)
			got := applyOne(t, cache, rule.Take, limit, cost)
			if got.Flags == rule.Cached && (truth.Allowed || got.RetryAfter > truth.RetryAfter) {
				t.Fatalf("seed %d, step %d: got %+v from memory, want the store's %+v", seed, step, got, truth)
			}
			clock.Advance(rule.Micros(random.Int64N(200_000)))
		}
	}
}
