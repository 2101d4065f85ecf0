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
	"github.com/slidegate/slidegate/internal/batches"
	"github.com/slidegate/slidegate/internal/layer/failure"
	"github.com/slidegate/slidegate/internal/testkit"
	"github.com/slidegate/slidegate/rule"
	"github.com/slidegate/slidegate/store"
)

// each runs a test in virtual time for each mode and each way to take one charge, with a limit of 1000 per hour.
func each(t *testing.T, test func(t *testing.T, mode store.Mode, take func(store.Store) rule.Answer)) {
	for mode := range modes {
		for name, way := range ways {
			t.Run(fmt.Sprintf("%v/%s", mode, name), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					limit := bind(t, slidegate.PerHour(1000))
					test(t, mode, func(st store.Store) rule.Answer {
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
	each(t, func(t *testing.T, mode store.Mode, take func(store.Store) rule.Answer) {
		inner := newRemote(t)
		st := newStore(t, inner, mode, failure.Options{})
		if a := take(st); a.Flags != 0 || a.Remaining != 999 || inner.callsSinceCheck() != 1 {
			t.Fatalf("a healthy store: got %+v", a)
		}
		inner.hang()
		if took := timed(func() {
			if a := take(st); a.Flags != modes[mode] {
				t.Errorf("the first request of the outage: got %+v, want the flag of the mode", a)
			}
		}); took != 100*time.Millisecond || inner.callsSinceCheck() != 1 {
			t.Errorf("the first request took %v", took)
		}
		expect(t, st, failure.Stats{Fallbacks: by(mode, 1), Failures: 1, Late: 1, Outages: 1, Down: true})
		if err := st.Health(); !errors.Is(err, failure.ErrUnavailable) || !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("healthy in an outage: %v", err)
		}
		if took := timed(func() {
			for range 50 {
				if a := take(st); a.Flags != modes[mode] {
					t.Fatalf("during the outage: got %+v, want the flag of the mode", a)
				}
			}
		}); took != 0 || inner.callsSinceCheck() != 0 {
			t.Errorf("the next 50 requests took %v", took)
		}
		testkit.Pass(5 * time.Second)
		if took := timed(func() { take(st) }); took != 0 || inner.callsSinceCheck() != 0 {
			t.Errorf("a request after 5s of outage took %v, and must not be a probe", took)
		}
		inner.heal()
		testkit.Pass(time.Second)
		for range 3 {
			if a := take(st); a.Flags != 0 || inner.callsSinceCheck() != 1 || a.At < 0 {
				t.Errorf("the store is back: got %+v", a)
			}
		}
		expect(t, st, failure.Stats{Fallbacks: by(mode, 52), Failures: 1, Late: 1, Outages: 1})
		if err := st.Health(); err != nil {
			t.Errorf("after the outage: %v", err)
		}
	})
}

// Whenever the store comes back, it is called again within one interval, without any request.
func TestRecoversWithinOneInterval(t *testing.T) {
	each(t, func(t *testing.T, mode store.Mode, take func(store.Store) rule.Answer) {
		for ms := range 30 {
			inner := newRemote(t)
			inner.hang()
			st := newStore(t, inner, mode, failure.Options{Timeout: 5 * time.Millisecond, ProbeEvery: 10 * time.Millisecond})
			take(st)
			testkit.Pass(time.Duration(ms) * time.Millisecond)
			inner.heal()
			testkit.Pass(10 * time.Millisecond)
			if a := take(st); a.Flags != 0 {
				t.Errorf("the store came back after %dms, and 10ms later got %+v", ms, a)
			}
		}
	})
}

// An outage that begins under load delays the requests in flight until their deadline.
func TestOutageUnderLoad(t *testing.T) {
	each(t, func(t *testing.T, mode store.Mode, take func(store.Store) rule.Answer) {
		inner := newRemote(t)
		inner.hang()
		st := newStore(t, inner, mode, failure.Options{})
		herd := func(n int) (waited time.Duration) {
			var wg sync.WaitGroup
			var mu sync.Mutex
			for range n {
				wg.Go(func() {
					took := timed(func() { take(st) })
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
		testkit.Pass(time.Second)
		if waited := herd(40); waited != 0 || inner.callsSinceCheck() != 0 {
			t.Errorf("40 requests when a probe was due waited for %v in total", waited)
		}
		expect(t, st, failure.Stats{Fallbacks: by(mode, 120), Failures: 40, Late: 40, Outages: 1, Down: true})
	})
}

// An error that says that the store is down opens the breaker at once, although others are answered. If only a connection
// broke, a probe closes it again at once.
func TestDownAtOnce(t *testing.T) {
	for _, cause := range []error{errDown, errBroken, fmt.Errorf("remote: READONLY: %w", store.ErrDown)} {
		each(t, func(t *testing.T, mode store.Mode, take func(store.Store) rule.Answer) {
			inner := newRemote(t)
			st := newStore(t, inner, mode, failure.Options{})
			inner.do(func(ctx context.Context, batch []store.Request) error {
				if isProbe(batch) {
					return inner.Store.Apply(ctx, batch)
				}
				return batches.FailAll(batch, cause)
			})
			if a := take(st); a.Flags != modes[mode] {
				t.Errorf("%v: got %+v, want the flag of the mode", cause, a)
			}
			synctest.Wait() // for the probe
			expect(t, st, failure.Stats{Fallbacks: by(mode, 1), Failures: 1, Outages: 1})
			inner.heal()
			if a := take(st); a.Flags != 0 {
				t.Errorf("after %v: got %+v, want the store's answer", cause, a)
			}
		})
	}
}

// Of several calls that failed because one connection broke, those that are seen after the store is back do not open the
// breaker again.
func TestStragglersProveNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		inner, limit := newRemote(t), bind(t, slidegate.PerHour(1000))
		st := newStore(t, inner, store.FailOpen, failure.Options{})
		inner.do(func(ctx context.Context, batch []store.Request) error {
			if isProbe(batch) {
				return inner.Store.Apply(ctx, batch)
			}
			if batch[0].Charges[0].Key == "straggler" {
				testkit.Delay(10 * time.Millisecond)
			}
			return batches.FailAll(batch, errBroken)
		})
		var wg sync.WaitGroup
		for _, key := range []string{"straggler", "first"} {
			wg.Go(func() { _, _ = apply(t, st, rule.Take, store.Charge{Limit: limit, Key: key, Cost: 1}) })
			synctest.Wait()
		}
		wg.Wait()
		if got := st.Stats(); got.Outages != 1 || got.Down {
			t.Errorf("got %+v, want one outage, that has ended", got)
		}
	})
}

// An error that may concern one key only is no outage if the store accepts a probe, and is one if it does not.
func TestErrorOfOneKey(t *testing.T) {
	each(t, func(t *testing.T, mode store.Mode, take func(store.Store) rule.Answer) {
		for _, cause := range []error{errOne, context.Canceled, context.DeadlineExceeded, fmt.Errorf("remote: %w", store.ErrBusy)} {
			inner := newRemote(t)
			st := newStore(t, inner, mode, failure.Options{})
			inner.do(func(ctx context.Context, batch []store.Request) error {
				if isProbe(batch) {
					return inner.Store.Apply(ctx, batch)
				}
				return batches.FailAll(batch, cause)
			})
			late := mode
			if mode == store.FailOpen {
				late = store.FailLocal
			}
			for range 20 {
				if a := take(st); a.Flags != modes[late] {
					t.Errorf("%v: got %+v, want the flag %v", cause, a, modes[late])
				}
			}
			testkit.Pass(5 * time.Second)
			expect(t, st, failure.Stats{Fallbacks: by(late, 20), Failures: 20})

			inner.fail(cause) // of probes too
			if a := take(st); a.Flags != modes[mode] || !st.Stats().Down {
				t.Errorf("%v of everything: got %+v, want the flag of the mode, and Down", cause, a)
			}
		}
	})
}

// Errors caused by the caller are returned unchanged and say nothing about the store.
func TestCallersErrors(t *testing.T) {
	limit := bind(t, slidegate.PerHour(1000))
	for mode := range modes {
		for name, way := range ways {
			for _, cause := range []error{slidegate.ErrLimit, slidegate.ErrCost, slidegate.ErrConflict, store.ErrUnsupported} {
				inner := newRemote(t)
				st := newStore(t, inner, mode, failure.Options{})
				want := fmt.Errorf("remote: %w", cause)
				inner.fail(want)
				for range 2 {
					if _, err := way(t.Context(), st, store.Charge{Limit: limit, Key: "k", Cost: 1}); err != want || inner.callsSinceCheck() != 1 {
						t.Errorf("%v, %s: %v became %v", mode, name, want, err)
					}
				}
				expect(t, st, failure.Stats{})
				inner.noTrips = true
				direct := newStore(t, inner, mode, failure.Options{})
				if _, err := way(t.Context(), direct, store.Charge{Limit: limit, Key: "k", Cost: 1}); err != want {
					t.Errorf("%v, %s: %v became %v in a store without round trips", mode, name, want, err)
				}
			}
		}
	}
}

// A caller whose deadline is earlier than the store's, or who leaves, gets its own error, and says nothing about a store that
// accepts charges. If the store does not, such callers find out too.
func TestCallersDeadline(t *testing.T) {
	each(t, func(t *testing.T, mode store.Mode, _ func(store.Store) rule.Answer) {
		limit := bind(t, slidegate.PerHour(1000))
		for name, way := range ways {
			inner := newRemote(t)
			inner.hang()
			slow := *inner.handle.Load()
			inner.do(func(ctx context.Context, batch []store.Request) error {
				if isProbe(batch) {
					return inner.Store.Apply(ctx, batch)
				}
				return slow(ctx, batch)
			})
			st := newStore(t, inner, mode, failure.Options{})
			send := func(ctx context.Context, cancel context.CancelFunc) (took time.Duration, err error) {
				defer cancel()
				took = timed(func() { _, err = way(ctx, st, store.Charge{Limit: limit, Key: "k", Cost: 1}) })
				return took, err
			}
			for range 50 {
				took, err := send(context.WithTimeout(t.Context(), 30*time.Millisecond))
				if !errors.Is(err, context.DeadlineExceeded) || errors.Is(err, failure.ErrUnavailable) || took != 30*time.Millisecond {
					t.Errorf("%s: a deadline of 30ms: got %v after %v", name, err, took)
				}
				ctx, cancel := context.WithCancel(t.Context())
				time.AfterFunc(70*time.Millisecond, cancel)
				if took, err = send(ctx, cancel); !errors.Is(err, context.Canceled) || took != 70*time.Millisecond {
					t.Errorf("%s: cancelled after 70ms: got %v after %v", name, err, took)
				}
			}
			expect(t, st, failure.Stats{})
			// A store that checks the deadline itself may be slightly earlier than the context.
			inner.do(func(ctx context.Context, batch []store.Request) error {
				if isProbe(batch) {
					return inner.Store.Apply(ctx, batch)
				}
				deadline, _ := ctx.Deadline()
				testkit.Delay(time.Until(deadline))
				return batches.FailAll(batch, errDown)
			})
			if _, err := send(context.WithDeadline(t.Context(), time.Now().Add(time.Millisecond))); !errors.Is(err, errDown) && !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("%s: at the caller's deadline, %v", name, err)
			}
			testkit.Pass(time.Second)
			expect(t, st, failure.Stats{})
			inner.hang()
			if _, err := send(context.WithTimeout(t.Context(), 10*time.Millisecond)); !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("%s: a dead store and a caller of 10ms: %v", name, err)
			}
			testkit.Pass(time.Second + 100*time.Millisecond)
			if !st.Stats().Down {
				t.Errorf("%s: callers with short deadlines did not find out that the store is out", name)
			}
			inner.callsSinceCheck()
			gone, cancel := context.WithCancel(t.Context())
			cancel()
			if _, err := send(gone, cancel); !errors.Is(err, context.Canceled) || inner.callsSinceCheck() != 0 {
				t.Errorf("%s: in an outage, the caller had left: %v", name, err)
			}
		}
	})
}

// An answer of a cache below says nothing about the store.
func TestCachedAnswerIsNoProof(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		inner, limit := newRemote(t), bind(t, ten)
		st := newStore(t, inner, store.FailOpen, failure.Options{})
		inner.hang()
		hang := *inner.handle.Load()
		inner.do(func(ctx context.Context, batch []store.Request) error {
			if batch[0].Charges[0].Key == "cached" {
				batch[0].Answers[0], batch[0].Err = rule.Answer{Flags: rule.Cached, RetryAfter: 5}, nil
				return nil
			}
			return hang(ctx, batch)
		})
		var wg sync.WaitGroup
		wg.Go(func() {
			for range 20 {
				_, _ = apply(t, st, rule.Take, store.Charge{Limit: limit, Key: "cached", Cost: 1})
				testkit.Delay(5 * time.Millisecond)
			}
		})
		if a, err := apply(t, st, rule.Take, store.Charge{Limit: limit, Key: "k", Cost: 1}); err != nil || a.Flags != rule.FallbackOpen {
			t.Errorf("got %+v, %v, want the outage to be found", a, err)
		}
		wg.Wait()
	})
}

// OnChange is called once, with the reason, when the store is out, and once when it is back.
func TestOnChange(t *testing.T) {
	each(t, func(t *testing.T, mode store.Mode, take func(store.Store) rule.Answer) {
		inner := newRemote(t)
		var mu sync.Mutex
		var changes []error
		st := newStore(t, inner, mode, failure.Options{OnChange: func(err error) {
			mu.Lock()
			defer mu.Unlock()
			changes = append(changes, err)
		}})
		inner.hang()
		take(st)
		testkit.Pass(3 * time.Second) // probes fail
		take(st)
		if len(changes) != 1 || !errors.Is(changes[0], failure.ErrUnavailable) || !st.Stats().Down {
			t.Fatalf("out: got %v, want one change with the error", changes)
		}
		inner.heal()
		testkit.Pass(time.Second)
		take(st)
		if len(changes) != 2 || changes[1] != nil || st.Stats().Down {
			t.Fatalf("the store is back: got %v, want a second change without an error", changes)
		}
	})
}
