package pgstore_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/slidegate/slidegate"
	"github.com/slidegate/slidegate/pgstore"
	"github.com/slidegate/slidegate/rule"
	"github.com/slidegate/slidegate/store"
	"github.com/slidegate/slidegate/test/porttest"
)

// Only a request with too many charges or none is rejected; the others of its batch are decided.
func TestChargesPerRequest(t *testing.T) {
	t.Parallel()
	s := newStore(t, database(t, pgstore.Options{}), pgstore.Options{})
	limit := bind(t, "", porttest.Kinds()[0])
	batch := make([]store.Request, 3)
	for i, n := range []int{0, 65, 64} {
		for j := range n {
			batch[i].Charges = append(batch[i].Charges, store.Charge{Limit: limit, Key: strings.Repeat("k", j), Cost: 1})
		}
		batch[i].Answers = make([]rule.Answer, n)
	}
	err := s.Apply(t.Context(), batch)
	for i, r := range batch[:2] {
		if !errors.Is(r.Err, store.ErrUnsupported) {
			t.Errorf("request %d: %v", i, r.Err)
		}
	}
	if err == nil || err.Error() != batch[0].Err.Error() {
		t.Errorf("Apply returned %v, want the first request's error %v", err, batch[0].Err)
	}
	if batch[2].Err != nil || batch[2].Answers[63].Remaining != 9 {
		t.Errorf("the last request has %v, %+v, want no error and 9 left in the last answer", batch[2].Err, batch[2].Answers)
	}
}

// Many concurrent batches over the same keys, of every algorithm that has a fast path, meet rows that others change
// meanwhile. No unit is granted twice, and none is lost: every admission leaves a different number of units.
func TestContendedBatches(t *testing.T) {
	t.Parallel()
	const quota, now = 120, rule.Micros(1_767_000_000e6)
	pool := database(t, pgstore.Options{}, "pool_max_conns=8")
	s := newStore(t, pool, pgstore.Options{Now: func() rule.Micros { return now }})
	limits := []*store.Limit{
		bindRule(t, "", "window", rule.Limit{Algorithm: rule.SlidingWindow, Quota: quota, Window: 3600e6}),
		bindRule(t, "", "parts", rule.Limit{Algorithm: rule.SlidingWindow, Quota: quota, Window: 3600e6, Segments: 6, Overlap: rule.OverlapWhole}),
		bindRule(t, "", "many-parts", rule.Limit{Algorithm: rule.SlidingWindow, Quota: quota, Window: 3600e6, Segments: 60}),
		bindRule(t, "", "log", rule.Limit{Algorithm: rule.SlidingLog, Quota: quota, Window: 3600e6}),
		bindRule(t, "", "default", rule.Limit{Quota: quota, Window: 3600e6}),
		bindRule(t, "", "bucket", rule.Limit{Algorithm: rule.TokenBucket, Quota: quota, Window: 3600e6}),
	}
	var mu sync.Mutex
	remaining := make([][]int64, len(limits))
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			for range 20 {
				batch := make([]store.Request, len(limits))
				for i, limit := range limits {
					batch[i] = store.Request{Charges: []store.Charge{{Limit: limit, Key: "key", Cost: 1}}, Answers: make([]rule.Answer, 1)}
				}
				if err := s.Apply(t.Context(), batch); err != nil {
					t.Error(err)
				}
				mu.Lock()
				for i := range batch {
					if a := batch[i].Answers[0]; a.Allowed {
						remaining[i] = append(remaining[i], a.Remaining)
					}
				}
				mu.Unlock()
			}
		})
	}
	all.Wait()
	for i, limit := range limits {
		slices.Sort(remaining[i])
		for j, n := range remaining[i] {
			if n != int64(j) {
				t.Fatalf("%s: got remaining %v", limit.Name(), remaining[i])
			}
		}
		if len(remaining[i]) != quota {
			t.Errorf("%s: got %d admitted, want %d", limit.Name(), len(remaining[i]), quota)
		}
	}
}

// Keys that are charged under a small and a large quota at the same time, while their logs become parts, never have more units than the
// larger one, and lose none.
func TestContendedPlans(t *testing.T) {
	t.Parallel()
	const small, large, keys, now = 60, 600, 5, rule.Micros(1_767_000_000e6)
	pool := database(t, pgstore.Options{}, "pool_max_conns=8")
	s := newStore(t, pool, pgstore.Options{Now: func() rule.Micros { return now }})
	var plans [2]*store.Limit
	for i, quota := range []int64{small, large} {
		plans[i] = bindRule(t, "", "plan", rule.Limit{Quota: quota, Window: 3600e6})
	}
	var admitted [keys]atomic.Int64
	var all sync.WaitGroup
	for i := range 8 {
		all.Go(func() {
			for n := range 2 * large {
				plan := plans[0]
				if n > 2 && (i+n)%2 == 0 {
					plan = plans[1]
				}
				batch := make([]store.Request, keys)
				for k := range batch {
					batch[k] = store.Request{Charges: []store.Charge{{Limit: plan, Key: fmt.Sprint(k), Cost: 5}}, Answers: make([]rule.Answer, 1)}
				}
				if err := s.Apply(t.Context(), batch[:1+n%keys]); err != nil {
					t.Error(err)
					return
				}
				for k := range batch {
					admitted[k].Add(batch[k].Answers[0].Granted)
				}
			}
		})
	}
	all.Wait()
	for k := range admitted {
		if got := admitted[k].Load(); got != large {
			t.Errorf("key %d: got %d units admitted, want %d", k, got, large)
		}
	}
}

// A batch of any size is decided, in order.
func TestLargeBatch(t *testing.T) {
	t.Parallel()
	s := newStore(t, database(t, pgstore.Options{}), pgstore.Options{})
	limit := bind(t, "", slidegate.Limit{Quota: 2_000, Window: time.Hour})
	batch := make([]store.Request, 2_500)
	for i := range batch {
		batch[i] = store.Request{Charges: []store.Charge{{Limit: limit, Cost: 1}}, Answers: make([]rule.Answer, 1)}
	}
	if err := s.Apply(t.Context(), batch); err != nil {
		t.Fatal(err)
	}
	for i := range batch {
		if a := batch[i].Answers[0]; a.Allowed != (i < 2_000) || a.Remaining != max(0, 2_000-int64(i)-1) {
			t.Fatalf("request %d: got %+v, want allowed %t, Remaining %d", i, a, i < 2_000, max(0, 2_000-i-1))
		}
	}
}
