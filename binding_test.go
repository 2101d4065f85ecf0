package slidegate_test

import (
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/slidegate/slidegate"
	"github.com/slidegate/slidegate/store"
	"github.com/slidegate/slidegate/storetest"
)

// A limit given per call is bound once, because stores cache what they know about a limit by its identity.
func TestLimitsAreBoundOnce(t *testing.T) {
	store := &recorder{Store: newReference()}
	limit := slidegate.PerMinute(10)
	limiter := newLimiter(t, store, limit, slidegate.PerHour(100))
	other, err := limiter.With(limit)
	if err != nil {
		t.Fatal(err)
	}
	allow(t, limiter, "k", 1)
	allow(t, other, "k", 1)
	for range 2 {
		if _, err := other.For(claim(limit, "k", 1)).Allow(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	requests := store.take()
	for i, request := range requests {
		if bound := request.Charges[0].Limit; bound != requests[0].Charges[0].Limit {
			t.Errorf("request %d has a different binding of %v", i, bound.Label())
		}
	}
	if len(requests) != 4 {
		t.Errorf("got %d requests, want 4", len(requests))
	}
}

// Any number of limits can be given per call: those that are no longer cached still count.
func TestMoreLimitsThanAreCached(t *testing.T) {
	const many = 4096 + 100
	limiter := newPerCall(t, newReference())
	for round := range int64(2) {
		for i := range many {
			limit := slidegate.Limit{Name: fmt.Sprint(i), Quota: 10, Window: time.Minute}
			d, err := limiter.For(claim(limit, "k", 1)).Allow(t.Context())
			if err != nil || !d.Allowed || d.LimitName != limit.Name || d.Remaining != 9-round {
				t.Fatalf("limit %d, round %d: got %+v, %v, want allowed by the limit %q with %d left", i, round, d, err, limit.Name, 9-round)
			}
		}
	}
}

// Many goroutines that use the same new limits concurrently agree on the bindings, and are admitted no more than the quota.
func TestConcurrentBinding(t *testing.T) {
	const workers, limits, quota = 8, 40, 20
	st := &recorder{Store: newMemory(t, storetest.NewClock(noon))}
	limiter := newPerCall(t, st)
	var mu sync.Mutex
	admitted := map[int]int64{}
	var wg sync.WaitGroup
	for worker := range workers {
		wg.Go(func() {
			for i := range limits * quota {
				n := (i + worker) % limits
				limit := slidegate.Limit{Name: fmt.Sprint(n), Quota: quota, Window: time.Hour}
				d, err := limiter.For(claim(limit, "k", 1)).Allow(t.Context())
				if err != nil {
					t.Error(err)
					return
				}
				mu.Lock()
				admitted[n] += d.Granted
				mu.Unlock()
			}
		})
	}
	wg.Wait()
	for n := range limits {
		if admitted[n] != quota {
			t.Errorf("limit %d admitted %d, want %d", n, admitted[n], quota)
		}
	}
	bound := map[*store.Limit]bool{}
	for _, request := range st.take() {
		bound[request.Charges[0].Limit] = true
	}
	if len(bound) != limits {
		t.Errorf("got %d bindings, want %d", len(bound), limits)
	}
}

func TestBind(t *testing.T) {
	limit := slidegate.Limit{Name: "api", Quota: 10, Window: time.Minute, Algorithm: slidegate.SlidingWindow}
	a, err := slidegate.Bind("shop", limit)
	if err != nil {
		t.Fatal(err)
	}
	if slidegate.Unbind(a) != limit || a.Namespace() != "shop" || a.Label() != "api" || a.Rule().Window != slidegate.Micros(time.Minute.Microseconds()) {
		t.Errorf("bound %v in %q as %q, %+v, want %v in \"shop\" as \"api\", with a window of a minute",
			slidegate.Unbind(a), a.Namespace(), a.Label(), a.Rule(), limit)
	}
	b, err := slidegate.Bind("shop", limit)
	if err != nil || b.ID() == a.ID() || b.Prefix() != a.Prefix() {
		t.Errorf("bound again: IDs %d and %d, prefixes %q and %q, %v", a.ID(), b.ID(), a.Prefix(), b.Prefix(), err)
	}
	c, err := slidegate.Bind("sho", slidegate.Limit{Name: "papi", Quota: 10, Window: time.Minute, Algorithm: slidegate.SlidingWindow})
	if err != nil || strings.HasPrefix(c.Prefix(), a.Prefix()) || strings.HasPrefix(a.Prefix(), c.Prefix()) {
		t.Errorf("prefixes %q and %q, %v", a.Prefix(), c.Prefix(), err)
	}
	if _, err := slidegate.Bind("", slidegate.Limit{}); err == nil {
		t.Error("got no error for the zero limit")
	}
}
