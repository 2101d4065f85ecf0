package refusals_test

import (
	"context"
	"testing"
	"time"

	"github.com/slidegate/slidegate"
	"github.com/slidegate/slidegate/internal/adapter"
	"github.com/slidegate/slidegate/rule"
	"github.com/slidegate/slidegate/store"
)

// TestForgetsImmediately checks that units reset or returned by this process are free for it as soon as the call returns.
func TestForgetsImmediately(t *testing.T) {
	for _, test := range []struct {
		name string
		op   rule.Op
	}{{"reset", rule.Reset}, {"refund", rule.GiveBack}, {"settle", rule.Settle}} {
		t.Run(test.name, func(t *testing.T) {
			rigs(t, forever, func(r *rig) {
				limit := fixed(r.t)
				for i := range 3 {
					r.take(limit, "key", 2)
					r.take(limit, "key", 1) // refused
					r.take(limit, "other", 2)
					r.take(limit, "other", 1) // refused
					r.spy.requests.Store(0)
					r.end(test.op, rule.ID(i+1), limit, "key", 2)
					r.wantCalls(1, "the operation")
					r.take(limit, "other", 1)
					r.wantCalls(0, "another key")
					if a := r.take(limit, "key", 1); !a.Allowed {
						r.t.Fatalf("after the operation: got %+v, want allowed", a)
					}
					r.do(rule.Reset, limit, "key", 0)
				}
			})
		})
	}
}

// TestForgetsInGroup checks that the reset of a key in a group applies to that group only.
func TestForgetsInGroup(t *testing.T) {
	r := newRig(t, forever, true)
	charge := store.Charge{Limit: fixed(t), Key: "key", Cost: 2}
	for _, group := range []string{"one", "two"} {
		r.several(rule.Take, group, charge)
		r.several(rule.Take, group, charge)
	}
	r.several(rule.Reset, "one", charge)
	if a := r.several(rule.Take, "one", charge)[0]; !a.Allowed {
		t.Fatalf("in the group of the reset: got %+v, want allowed", a)
	}
	if a := r.several(rule.Take, "two", charge)[0]; a.Flags != rule.Cached {
		t.Fatalf("in the other group: got %+v, want the flag Cached", a)
	}
}

// TestLimiterForgets tests the Limiter methods that are made of these operations.
func TestLimiterForgets(t *testing.T) {
	r := newRig(t, forever, true)
	limiter, err := slidegate.New(r.store, slidegate.PerHour(10))
	if err != nil {
		t.Fatal(err)
	}
	ctx := context.Background()
	allowed := func(n int64) bool {
		d, err := limiter.AllowN(ctx, "key", n)
		if err != nil {
			t.Fatal(err)
		}
		return d.Allowed
	}
	reservation, d, err := limiter.Reserve(ctx, "key", 10)
	if err != nil || !d.Allowed || allowed(1) || allowed(1) {
		t.Fatalf("got %+v, %v, want the reservation to take all, and two refusals", d, err)
	}
	if _, err := limiter.SettleAll(ctx, reservation, 8); err != nil || !allowed(2) || allowed(1) {
		t.Fatalf("after settling for 8 of 10: %v, want exactly 2 free", err)
	}
	if _, err := limiter.Refund(ctx, "key", 1); err != nil || !allowed(1) || allowed(1) {
		t.Fatalf("after a refund of 1: %v, want exactly 1 free", err)
	}
	if err := limiter.Reset(ctx, "key"); err != nil || !allowed(10) || allowed(1) {
		t.Fatalf("after a reset: %v, want all free", err)
	}
}

// TestOvertakenByReset checks that a refusal that was decided before a reset, but arrives after it, is not remembered.
func TestOvertakenByReset(t *testing.T) {
	rigs(t, forever, func(r *rig) {
		limit := fixed(r.t)
		r.take(limit, "key", 2)
		r.spy.after = func(op rule.Op) { // the answer is in flight
			if op == rule.Take {
				r.spy.after = nil
				r.do(rule.Reset, limit, "key", 0)
			}
		}
		if a := r.take(limit, "key", 1); a.Allowed {
			r.t.Fatalf("before the reset: got %+v, want refused", a)
		}
		if a := r.take(limit, "key", 1); !a.Allowed {
			r.t.Fatalf("after the reset: got %+v, want allowed", a)
		}
	})
}

// TestRequestDuringReset checks that while a reset is under way, when its effect is unknown, nothing is answered from
// memory, and refusals from before its effect are not remembered.
func TestRequestDuringReset(t *testing.T) {
	rigs(t, forever, func(r *rig) {
		limit := fixed(r.t)
		r.take(limit, "key", 2)
		r.take(limit, "key", 1)
		r.spy.before = func(op rule.Op) {
			if op == rule.Reset {
				r.spy.requests.Store(0)
				if a := r.take(limit, "key", 1); a.Allowed {
					r.t.Fatalf("before the store has reset: got %+v, want refused", a)
				}
				r.take(limit, "key", 1)
				r.wantCalls(2, "before the store has reset")
			}
		}
		r.spy.after = func(op rule.Op) {
			if op == rule.Reset {
				if a := r.take(limit, "key", 1); !a.Allowed {
					r.t.Fatalf("after the store has reset, but before the reset returned: got %+v, want allowed", a)
				}
				if a := r.take(limit, "key", 2); a.Allowed {
					r.t.Fatalf("after the store has reset: got %+v, want refused", a)
				}
			}
		}
		r.do(rule.Reset, limit, "key", 0)
		if a := r.take(limit, "key", 1); !a.Allowed {
			r.t.Fatalf("after the reset: got %+v, want allowed", a)
		}
		r.take(limit, "key", 1)
		r.spy.requests.Store(0)
		if a := r.take(limit, "key", 1); a.Flags != rule.Cached {
			r.t.Fatalf("a refusal after the reset is not remembered: got %+v, want the flag Cached", a)
		}
	})
}

// TestSeveralDuringReset checks that a request over several limits goes to the store while any of its addresses is
// being reset.
func TestSeveralDuringReset(t *testing.T) {
	for place := range 2 {
		r := newRig(t, forever, true)
		r.several(rule.Charge, "g", pairOf(t, 2, 3)...)
		both := pairOf(t, 1, 1)
		r.several(rule.Take, "g", both...)
		r.several(rule.Take, "g", both...)
		r.wantCalls(2, "until the reset")
		during := func(op rule.Op) {
			if op == rule.Reset {
				r.spy.requests.Store(0)
				r.several(rule.Take, "g", both...)
				r.several(rule.Take, "g", both...)
				r.wantCalls(2, "during the reset")
			}
		}
		r.spy.before, r.spy.after = during, during
		r.several(rule.Reset, "g", both[place])
		if a := r.several(rule.Take, "g", both...); !a[place].Allowed {
			t.Fatalf("after the reset of %d: got %+v, want allowed", place, a)
		}
	}
}

// TestTwoResetsAtOnce checks that the end of one reset does not end a concurrent one.
func TestTwoResetsAtOnce(t *testing.T) {
	rigs(t, forever, func(r *rig) {
		limit := fixed(r.t)
		r.take(limit, "key", 2)
		depth := 0
		r.spy.before = func(op rule.Op) {
			if depth++; op == rule.Reset && depth == 1 {
				r.do(rule.Reset, limit, "key", 0) // begins and ends while the first is under way
				r.take(limit, "key", 2)
				r.take(limit, "key", 1) // refused
				r.spy.requests.Store(0)
				r.take(limit, "key", 1)
				r.wantCalls(1, "while the first reset is under way")
			}
		}
		r.do(rule.Reset, limit, "key", 0)
		if a := r.take(limit, "key", 1); !a.Allowed {
			r.t.Fatalf("after both resets: got %+v, want allowed", a)
		}
	})
}

// TestPanicEndsReset checks that a store that panics does not leave the key as if a reset were under way forever.
func TestPanicEndsReset(t *testing.T) {
	rigs(t, forever, func(r *rig) {
		limit := fixed(r.t)
		r.spy.before = func(rule.Op) { panic("store") }
		func() {
			defer func() { _ = recover() }()
			r.do(rule.Reset, limit, "key", 0)
		}()
		r.spy.before = nil
		r.take(limit, "key", 2)
		r.take(limit, "key", 1)
		if a := r.take(limit, "key", 1); a.Flags != rule.Cached {
			r.t.Fatalf("refusals are no longer remembered: got %+v, want the flag Cached", a)
		}
	})
}

// TestClockMoved checks that when the store's clock is set far back, so that the store moves states to the new time,
// refusals by the old time end as soon as this is seen: here by another limit of the same address, whether it refuses or
// admits.
func TestClockMoved(t *testing.T) {
	for _, test := range []struct {
		name   string
		cost   int64
		counts bool
	}{{"refused", 3, false}, {"admitted", 1, false}, {"refused requests count", 3, true}} {
		t.Run(test.name, func(t *testing.T) {
			opts := forever
			opts.Now = func() time.Duration { return 0 }
			rigs(t, opts, func(r *rig) {
				limit := fixed(r.t)
				r.clock.Set(epoch + 10*second)
				r.take(limit, "key", 2)
				if a := r.take(limit, "key", 1); a.RetryAfter != 50*second {
					r.t.Fatalf("got %+v, want a retry after 50 s", a)
				}
				r.clock.Set(epoch - 61*second) // more than a window before the state: a second before the end of a minute
				larger := adapter.Unbind(limit)
				larger.Quota, larger.CountRefused = 3, test.counts
				if a := r.take(bound(r.t, larger), "key", test.cost); a.Flags != rule.ClockMoved {
					r.t.Fatalf("the store did not move the state: got %+v, want the flag ClockMoved", a)
				}
				r.pass(time.Second)
				if a := r.take(limit, "key", 1); !a.Allowed {
					r.t.Fatalf("in the next minute by the new time: got %+v, want allowed", a)
				}
			})
		})
	}
}

// TestSmallerQuotaLeavesTheLog checks that a log written under a smaller quota forgets nothing, so that a request refused by a larger quota
// stays refused.
func TestSmallerQuotaLeavesTheLog(t *testing.T) {
	log := slidegate.Limit{Name: "log", Quota: 4, Window: time.Hour, Algorithm: slidegate.SlidingLog}
	for _, test := range []struct {
		name   string
		op     rule.Op
		counts bool
	}{{"charge", rule.Charge, false}, {"take", rule.Take, true}, {"take up to", rule.TakeUpTo, true}} {
		t.Run(test.name, func(t *testing.T) {
			rigs(t, forever, func(r *rig) {
				large := bound(r.t, log)
				shrunk := log
				shrunk.Quota, shrunk.CountRefused = 2, test.counts
				small := bound(r.t, shrunk)
				r.take(large, "key", 4)
				r.take(large, "key", 1) // refused
				if test.op == rule.Take {
					r.take(small, "key", 1)
				} else {
					r.do(test.op, small, "key", 1)
				}
				if a := r.take(large, "key", 2); a.Allowed {
					r.t.Fatalf("after the log was written under a quota of two: got %+v, want refused", a)
				}
			})
		})
	}
}
