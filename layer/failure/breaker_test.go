package failure_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/slidegate/slidegate"
	"github.com/slidegate/slidegate/layer/failure"
	"github.com/slidegate/slidegate/rule"
	"github.com/slidegate/slidegate/store"
)

// each runs a test in virtual time for each policy and each way to take one charge, with a limit of 1000 per hour.
func each(t *testing.T, test func(t *testing.T, flag rule.Flags, policy failure.Policy, take func(store.Store) rule.Answer)) {
	for flag, policy := range policies(t) {
		for name, way := range ways {
			t.Run(fmt.Sprintf("%v/%s", policy, name), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					if flag == rule.FallbackLocal { // its clock must be the bubble's
						policy = failure.Local(newMemory(t))
					}
					limit := bind(t, slidegate.PerHour(1000))
					test(t, flag, policy, func(st store.Store) rule.Answer {
						t.Helper()
						a, err := way(t.Context(), st, store.Charge{Limit: limit, Key: "k", Cost: 1})
						if err != nil {
							t.Fatal(err)
						}
						if a.Allowed != (a.Flags != rule.FallbackClosed) {
							t.Fatalf("got %+v, want it allowed: the quota is ample", a)
						}
						return a
					})
				})
			})
		}
	}
}

// An outage delays the first request until its deadline, and the following ones not at all; at most one probe interval
// after the store is back, all requests get its answers again.
func TestDeadStoreDelaysOneRequest(t *testing.T) {
	each(t, func(t *testing.T, flag rule.Flags, policy failure.Policy, take func(store.Store) rule.Answer) {
		inner := newRemote(t)
		store := newStore(t, inner, policy, failure.Options{})
		if a := take(store); a.Flags != 0 || a.Remaining != 999 || inner.callsSinceCheck() != 1 {
			t.Fatalf("a healthy store: got %+v", a)
		}
		inner.hang()
		if took := timed(func() {
			if a := take(store); a.Flags != flag {
				t.Errorf("the first request of the outage: got %+v, want the flag of the fallback", a)
			}
		}); took != 100*time.Millisecond || inner.callsSinceCheck() != 1 {
			t.Errorf("the first request took %v", took)
		}
		expect(t, store, failure.Stats{Fallbacks: 1, Failures: 1, Late: 1, Outages: 1, Down: true})
		if took := timed(func() {
			for range 50 {
				if a := take(store); a.Flags != flag {
					t.Fatalf("during the outage: got %+v, want the flag of the fallback", a)
				}
			}
		}); took != 0 || inner.callsSinceCheck() != 0 {
			t.Errorf("the next 50 requests took %v", took)
		}

		time.Sleep(time.Second - time.Microsecond)
		if take(store); inner.callsSinceCheck() != 0 {
			t.Error("the store was called before the probe was due")
		}
		time.Sleep(time.Microsecond)
		if took := timed(func() { take(store) }); took != 100*time.Millisecond || inner.callsSinceCheck() != 1 {
			t.Errorf("a probe of a dead store took %v", took)
		}
		expect(t, store, failure.Stats{Fallbacks: 53, Failures: 2, Late: 2, Outages: 1, Probes: 1, Down: true})

		inner.heal()
		time.Sleep(900*time.Millisecond - time.Microsecond) // the next one is due an interval after the last one began
		if a := take(store); a.Flags != flag || inner.callsSinceCheck() != 0 {
			t.Errorf("before the second probe: got %+v, want the flag of the fallback, without a call", a)
		}
		time.Sleep(time.Microsecond)
		for range 3 {
			if a := take(store); a.Flags != 0 || inner.callsSinceCheck() != 1 || a.At < 0 {
				t.Errorf("the store is back: got %+v", a)
			}
		}
		expect(t, store, failure.Stats{Fallbacks: 54, Failures: 2, Late: 2, Outages: 1, Probes: 2})
	})
}

// Whenever the store comes back, it is called again within one interval.
func TestRecoversWithinOneInterval(t *testing.T) {
	each(t, func(t *testing.T, flag rule.Flags, policy failure.Policy, take func(store.Store) rule.Answer) {
		for ms := range 30 {
			inner := newRemote(t)
			inner.hang()
			store := newStore(t, inner, policy, failure.Options{Timeout: 5 * time.Millisecond, ProbeEvery: 10 * time.Millisecond})
			take(store)
			time.Sleep(time.Duration(ms) * time.Millisecond)
			take(store) // sometimes a probe
			inner.heal()
			back := time.Now()
			for take(store).Flags != 0 {
				time.Sleep(time.Millisecond)
			}
			if took := time.Since(back); took > 10*time.Millisecond {
				t.Errorf("the store came back after %dms and was called %v later", ms, took)
			}
		}
	})
}

// An outage that begins under load delays the requests in flight until their deadline, and a probe is a single request.
func TestOneProbeUnderLoad(t *testing.T) {
	each(t, func(t *testing.T, flag rule.Flags, policy failure.Policy, take func(store.Store) rule.Answer) {
		inner := newRemote(t)
		inner.hang()
		store := newStore(t, inner, policy, failure.Options{})
		herd := func(n int) (waited time.Duration) {
			var wg sync.WaitGroup
			var mu sync.Mutex
			for range n {
				wg.Go(func() {
					took := timed(func() { take(store) })
					mu.Lock()
					defer mu.Unlock()
					waited += took
				})
			}
			wg.Wait()
			return waited
		}
		if waited := herd(40); waited != 40*100*time.Millisecond || inner.callsSinceCheck() != 40 {
			t.Errorf("40 requests in flight waited for %v in total", waited)
		}
		if waited := herd(40); waited != 0 || inner.callsSinceCheck() != 0 {
			t.Errorf("40 requests in the outage waited for %v in total", waited)
		}
		time.Sleep(time.Second)
		if waited := herd(40); waited != 100*time.Millisecond || inner.callsSinceCheck() != 1 {
			t.Errorf("40 requests when a probe was due waited for %v in total", waited)
		}
		expect(t, store, failure.Stats{Fallbacks: 120, Failures: 41, Late: 41, Outages: 1, Probes: 1, Down: true})
	})
}

// The breaker opens after Failures consecutive failures; an answer in between restarts the count.
func TestFailuresInARow(t *testing.T) {
	each(t, func(t *testing.T, flag rule.Flags, policy failure.Policy, take func(store.Store) rule.Answer) {
		inner := newRemote(t)
		store := newStore(t, inner, policy, failure.Options{Failures: 3})
		for _, ok := range []bool{false, false, true, false, false, false} {
			inner.fail(errDown)
			if ok {
				inner.heal()
			}
			a := take(store)
			if (a.Flags == 0) != ok || inner.callsSinceCheck() != 1 {
				t.Fatalf("the store works: %v; got %+v", ok, a)
			}
			if flag == rule.FallbackClosed && !ok && a.RetryAfter != 1_000_000 {
				t.Errorf("denied for %dus", a.RetryAfter)
			}
		}
		if take(store); inner.callsSinceCheck() != 0 {
			t.Error("the store was called after three consecutive failures")
		}
		expect(t, store, failure.Stats{Fallbacks: 6, Failures: 5, Outages: 1, Down: true})
	})
}

// A late answer is used, and still counts against the store.
func TestLateAnswerCountsAsFailure(t *testing.T) {
	each(t, func(t *testing.T, flag rule.Flags, policy failure.Policy, take func(store.Store) rule.Answer) {
		inner := newRemote(t)
		store := newStore(t, inner, policy, failure.Options{})
		inner.slow(150 * time.Millisecond)
		if a := take(store); a.Flags != 0 || a.Remaining != 999 {
			t.Errorf("the late answer is %+v", a)
		}
		if a := take(store); a.Flags != flag || inner.callsSinceCheck() != 1 {
			t.Errorf("after a late answer: got %+v, want the flag of the fallback, after one call", a)
		}
		expect(t, store, failure.Stats{Fallbacks: 1, Late: 1, Outages: 1, Down: true})
		time.Sleep(time.Second)
		take(store) // a probe that is also late
		expect(t, store, failure.Stats{Fallbacks: 1, Late: 2, Outages: 1, Probes: 1, Down: true})
		inner.slow(99 * time.Millisecond)
		time.Sleep(time.Second)
		if a := take(store); a.Flags != 0 || store.Stats().Down {
			t.Errorf("a probe that was answered in time: got %+v, want no flags, and the end of the outage", a)
		}
	})
}

// A request from before the outage proves nothing about the store after it.
func TestStragglersProveNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		inner, limit := newRemote(t), bind(t, slidegate.PerHour(1000))
		st := newStore(t, inner, failure.Open(), failure.Options{Timeout: time.Second, ProbeEvery: time.Second})
		inner.slow(5 * time.Second) // far too late, and ignores its context
		var wg sync.WaitGroup
		take := func() { _, _ = apply(t, st, rule.Take, store.Charge{Limit: limit, Key: "k", Cost: 1}) }
		wg.Go(take)
		synctest.Wait()
		inner.fail(errDown)
		take()
		expect(t, st, failure.Stats{Fallbacks: 1, Failures: 1, Outages: 1, Down: true})
		inner.heal()
		time.Sleep(time.Second)
		take()
		want := failure.Stats{Fallbacks: 1, Failures: 1, Outages: 1, Probes: 1}
		expect(t, st, want)
		wg.Wait() // the straggler returns late, which would be a failure
		want.Late = 1
		expect(t, st, want)

		// A straggler that is answered in time does not end an outage either.
		inner.slow(500 * time.Millisecond)
		wg.Go(take)
		synctest.Wait()
		inner.fail(errDown)
		take()
		wg.Wait()
		want.Fallbacks, want.Failures, want.Outages, want.Down = 2, 2, 2, true
		expect(t, st, want)
	})
}

// Errors caused by the caller, and by a context that the caller ended, are returned unchanged and do not count against
// the store.
func TestCallersErrors(t *testing.T) {
	limit := bind(t, slidegate.PerHour(1000))
	for flag, policy := range policies(t) {
		for name, way := range ways {
			for _, cause := range []error{slidegate.ErrLimit, slidegate.ErrCost, slidegate.ErrConflict, store.ErrUnsupported} {
				inner := newRemote(t)
				st := newStore(t, inner, policy, failure.Options{})
				want := fmt.Errorf("remote: %w", cause)
				inner.fail(want)
				for range 2 {
					if _, err := way(t.Context(), st, store.Charge{Limit: limit, Key: "k", Cost: 1}); err != want || inner.callsSinceCheck() != 1 {
						t.Errorf("%v, %s: %v became %v", policy, name, want, err)
					}
				}
				expect(t, st, failure.Stats{})
				inner.noTrips = true
				direct := newStore(t, inner, policy, failure.Options{})
				if _, err := way(t.Context(), direct, store.Charge{Limit: limit, Key: "k", Cost: 1}); err != want {
					t.Errorf("%v, %s: %v became %v in a store without round trips", policy, name, want, err)
				}
			}
			for _, cause := range []error{errDown, context.Canceled, context.DeadlineExceeded} { // these are the store's own
				inner := newRemote(t)
				st := newStore(t, inner, policy, failure.Options{})
				inner.fail(cause)
				if a, err := way(t.Context(), st, store.Charge{Limit: limit, Key: "k", Cost: 1}); err != nil || a.Flags != flag {
					t.Errorf("%v, %s: after %v, %+v and %v", policy, name, cause, a, err)
				}
				expect(t, st, failure.Stats{Fallbacks: 1, Failures: 1, Outages: 1, Down: true})
			}
		}
	}
}

// A caller whose deadline is earlier than the store's gets its own error.
func TestCallersDeadline(t *testing.T) {
	each(t, func(t *testing.T, flag rule.Flags, policy failure.Policy, take func(store.Store) rule.Answer) {
		limit := bind(t, slidegate.PerHour(1000))
		for _, detached := range []int{0, 10} {
			for name, way := range ways {
				inner := newRemote(t)
				inner.hang()
				st := newStore(t, inner, policy, failure.Options{MaxDetached: detached})
				send := func(ctx context.Context, cancel context.CancelFunc) (took time.Duration, err error) {
					defer cancel()
					took = timed(func() { _, err = way(ctx, st, store.Charge{Limit: limit, Key: "k", Cost: 1}) })
					return took, err
				}
				took, err := send(context.WithTimeout(t.Context(), 30*time.Millisecond))
				if !errors.Is(err, context.DeadlineExceeded) || errors.Is(err, failure.ErrUnavailable) || took != 30*time.Millisecond {
					t.Errorf("%s: a deadline of 30ms: got %v after %v", name, err, took)
				}
				ctx, cancel := context.WithCancel(t.Context())
				time.AfterFunc(20*time.Millisecond, cancel)
				if took, err = send(ctx, cancel); !errors.Is(err, context.Canceled) || took != 20*time.Millisecond {
					t.Errorf("%s: cancelled after 20ms: got %v after %v", name, err, took)
				}
				synctest.Wait() // detached calls return
				expect(t, st, failure.Stats{})
				// A store that checks the deadline itself may be slightly earlier than the context.
				inner.do(func(ctx context.Context, batch []store.Request) error {
					deadline, _ := ctx.Deadline()
					time.Sleep(time.Until(deadline))
					return setErr(batch, errDown)
				})
				if _, err = send(context.WithDeadline(t.Context(), time.Now().Add(time.Millisecond))); !errors.Is(err, errDown) && !errors.Is(err, context.DeadlineExceeded) {
					t.Errorf("%s: at the caller's deadline, %v", name, err)
				}
				synctest.Wait()
				expect(t, st, failure.Stats{})
				inner.hang()
				if took, err = send(context.WithTimeout(t.Context(), time.Hour)); err != nil || took != 100*time.Millisecond {
					t.Errorf("%s: a deadline of an hour: got %v after %v", name, err, took)
				}
				// In an outage, a caller that has left gets no answer and makes no probe.
				time.Sleep(time.Second)
				inner.callsSinceCheck()
				gone, cancel := context.WithCancel(t.Context())
				cancel()
				if _, err = send(gone, cancel); !errors.Is(err, context.Canceled) || inner.callsSinceCheck() != 0 {
					t.Errorf("%s: the caller had left: %v", name, err)
				}
				// A probe whose caller leaves proves nothing; the next one does.
				inner.hang()
				if _, err = send(context.WithTimeout(t.Context(), time.Millisecond)); !errors.Is(err, context.DeadlineExceeded) || inner.callsSinceCheck() != 1 {
					t.Errorf("%s: an abandoned probe: %v", name, err)
				}
				inner.heal()
				time.Sleep(time.Second)
				if a := take(st); a.Flags != 0 {
					t.Errorf("%s: after an abandoned probe: got %+v, want no flags", name, a)
				}
			}
		}
	})
}

// A probe answered by a cache below proves nothing.
func TestCachedAnswerIsNoProof(t *testing.T) {
	each(t, func(t *testing.T, flag rule.Flags, policy failure.Policy, take func(store.Store) rule.Answer) {
		inner := newRemote(t)
		st := newStore(t, inner, policy, failure.Options{})
		inner.fail(errDown)
		take(st)
		inner.do(func(ctx context.Context, batch []store.Request) error {
			batch[0].Answers[0], batch[0].Err = rule.Answer{Allowed: true, Flags: rule.Cached}, nil
			return nil
		})
		time.Sleep(time.Second)
		if a := take(st); a.Flags != rule.Cached || !st.Stats().Down {
			t.Errorf("a cached answer to a probe: got %+v, %+v, want the flag Cached, and Down", a, st.Stats())
		}
	})
}
