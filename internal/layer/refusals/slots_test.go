package refusals_test

import (
	"context"
	"testing"
	"time"

	"github.com/slidegate/slidegate"
	"github.com/slidegate/slidegate/internal/testkit"
	"github.com/slidegate/slidegate/rule"
	"github.com/slidegate/slidegate/store"
)

// slots returns a limit of one slot, held for a minute.
func slots(t testing.TB) *store.Limit {
	t.Helper()
	limit := testkit.Must(rule.Limit{Algorithm: rule.InFlight, Quota: 1, Window: 60 * second}.Normalize())(t)
	return store.Bind("", "slots", "slots", limit)
}

// TestSlotsAreNotRemembered checks that every request for a slot reaches the store, because another process may release
// one at any time. This also holds if the request has other limits that refuse it.
func TestSlotsAreNotRemembered(t *testing.T) {
	rigs(t, forever, func(r *rig) {
		limit := slots(r.t)
		r.end(rule.Take, 7, limit, "key", 1)
		for range 3 {
			if a := r.take(limit, "key", 1); a.Allowed {
				r.t.Fatalf("a second slot: got %+v, want refused", a)
			}
		}
		r.wantCalls(4, "a slot that is held")
		if _, err := apply(context.Background(), r.spy.Store, rule.GiveBack, "", store.Charge{Limit: limit, Key: "key", Cost: 1}); err != nil {
			r.t.Fatal(err)
		}
		if a := r.take(limit, "key", 1); !a.Allowed {
			r.t.Fatalf("another process released the slot: got %+v, want allowed", a)
		}
		r.wantCalls(1, "a free slot")
		rate := store.Charge{Limit: fixed(r.t), Key: "key", Cost: 2}
		r.several(rule.Take, "", rate)
		r.spy.requests.Store(0)
		for range 3 { // both refuse
			r.several(rule.Take, "", rate, store.Charge{Limit: limit, Key: "key", Cost: 1})
		}
		r.wantCalls(3, "a slot and a rate")
		for range 3 { // only the rate refuses
			r.several(rule.Take, "", rate, store.Charge{Limit: limit, Key: "other", Cost: 1})
		}
		r.wantCalls(3, "a free slot and an exhausted rate")
	})
}

// TestNextAfter checks that NextAfter is passed on, and adjusted for elapsed time in an answer from memory.
func TestNextAfter(t *testing.T) {
	rigs(t, forever, func(r *rig) {
		limit := fixed(r.t)
		if a := r.take(limit, "key", 2); !a.Allowed || a.NextAfter != 60*second {
			r.t.Fatalf("the last unit: got %+v, want allowed, NextAfter 60s", a)
		}
		full := store.Charge{Limit: limit, Key: "key"}
		refuses := store.Charge{Limit: limit, Key: "other", Cost: 2}
		r.several(rule.Charge, "", refuses)
		r.several(rule.Take, "", full, refuses)
		r.clock.Advance(second)
		if a := r.several(rule.Take, "", full, refuses)[0]; a.Flags != rule.Cached || !a.Allowed || a.NextAfter != 59*second {
			r.t.Fatalf("from memory, a second later: got %+v, want the flag Cached, allowed, NextAfter 59s", a)
		}
	})
}

// TestPlansOfBucket checks that a bucket used under two quotas always goes to the store, from the first request of any
// kind by the second quota on.
func TestPlansOfBucket(t *testing.T) {
	bucket := func(t testing.TB, quota int64, countRefused bool) *store.Limit {
		limit := testkit.Must(rule.Limit{Algorithm: rule.TokenBucket, Quota: quota, Burst: 2, Window: 60 * second, CountRefused: countRefused}.Normalize())(t)
		return store.Bind("", "plan", "plan", limit)
	}
	for _, op := range []rule.Op{rule.Take, rule.TakeUpTo, rule.Charge} {
		for _, countRefused := range []bool{false, true} {
			rigs(t, forever, func(r *rig) {
				slow, fast := bucket(r.t, 1, false), bucket(r.t, 60, countRefused)
				r.take(slow, "key", 2)
				r.take(slow, "key", 1)
				r.take(slow, "key", 1)
				r.wantCalls(2, "one plan")
				r.pass(2_000_000_000)
				if op == rule.Take {
					r.take(fast, "key", 1)
				} else {
					r.do(op, fast, "key", 1)
				}
				r.wantCalls(1, "the other plan")
				truth, err := apply(context.Background(), r.spy.Store, rule.Peek, "", store.Charge{Limit: slow, Key: "key", Cost: 1})
				if err != nil {
					r.t.Fatal(err)
				}
				if a := r.take(slow, "key", 1); a.Allowed != truth[0].Allowed || a.RetryAfter > truth[0].RetryAfter {
					r.t.Fatalf("%v by the other plan, then %+v, want %+v", op, a, truth[0])
				}
				r.wantCalls(1, "the first plan again")
			})
		}
	}
}

// TestLeasedLimitsAreNotRemembered covers leased limits: another process may return units of a lease that it does not
// spend.
func TestLeasedLimitsAreNotRemembered(t *testing.T) {
	rigs(t, forever, func(r *rig) {
		limit := bound(r.t, slidegate.Limit{Quota: 2, Window: time.Minute, Algorithm: slidegate.FixedWindow, Lease: true})
		r.take(limit, "key", 2)
		for range 3 {
			if a := r.take(limit, "key", 1); a.Allowed {
				r.t.Fatalf("a third unit: got %+v, want refused", a)
			}
		}
		r.wantCalls(4, "exhausted units")
		if _, err := apply(context.Background(), r.spy.Store, rule.GiveBack, "", store.Charge{Limit: limit, Key: "key", Cost: 1}); err != nil {
			r.t.Fatal(err)
		}
		if a := r.take(limit, "key", 1); !a.Allowed {
			r.t.Fatalf("another process returned a unit: got %+v, want allowed", a)
		}
	})
}
