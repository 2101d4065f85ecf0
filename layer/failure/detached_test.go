package failure_test

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/slidegate/slidegate"
	"github.com/slidegate/slidegate/layer/failure"
	"github.com/slidegate/slidegate/rule"
	"github.com/slidegate/slidegate/store"
)

// ignoreContext makes the store ignore its context until it is released, and then write to the batch.
func (r *remote) ignoreContext() (release func()) {
	released := make(chan struct{})
	r.do(func(ctx context.Context, batch []store.Request) error {
		<-released
		for i := range batch {
			batch[i].Charges[0] = store.Charge{}
		}
		return r.Store.Apply(ctx, batch[:0])
	})
	return sync.OnceFunc(func() { close(released) })
}

// No caller waits for a store that ignores the end of its context, and the store cannot harm callers that have left.
func TestDetached(t *testing.T) {
	each(t, func(t *testing.T, flag rule.Flags, policy failure.Policy, take func(store.Store) rule.Answer) {
		inner := newRemote(t)
		st := newStore(t, inner, policy, failure.Options{MaxDetached: 3, OnFallback: func(_ context.Context, _ rule.Op, err error) {
			if !errors.Is(err, context.DeadlineExceeded) && !strings.Contains(err.Error(), "too many calls") {
				t.Errorf("OnFallback got %v", err)
			}
		}})
		if a := take(st); a.Flags != 0 || a.Remaining != 999 {
			t.Errorf("a healthy store: got %+v, want no flags, Remaining 999", a)
		}
		release := inner.ignoreContext()
		charge := store.Charge{Limit: bind(t, ten), Key: "k", Cost: 1}
		batch := []store.Request{request(rule.Peek, charge)}
		if took := timed(func() {
			if err := st.Apply(t.Context(), batch); err != nil || batch[0].Answers[0].Flags != flag {
				t.Errorf("got %+v, %v, want the flag %v", batch, err, flag)
			}
		}); took != 100*time.Millisecond {
			t.Errorf("the first took %v", took)
		}
		for range 2 { // two probes are abandoned, so three calls are in flight
			time.Sleep(time.Second)
			if took := timed(func() { take(st) }); took != 100*time.Millisecond {
				t.Errorf("a probe took %v", took)
			}
		}
		inner.callsSinceCheck()
		time.Sleep(time.Second)
		if took := timed(func() { take(st) }); took != 0 || inner.callsSinceCheck() != 0 {
			t.Errorf("a fourth call took %v", took)
		}
		expect(t, st, failure.Stats{Fallbacks: 4, Failures: 3, Late: 3, Outages: 1, Probes: 3, Detached: 3, Down: true})
		kept := batch[0].Answers[0]
		release()
		synctest.Wait()
		if batch[0].Charges[0] != charge || batch[0].Answers[0] != kept {
			t.Errorf("an abandoned call wrote to the caller's batch: %+v", batch)
		}
		inner.heal()
		time.Sleep(time.Second)
		if a := take(st); a.Flags != 0 {
			t.Errorf("the store is back: got %+v, want no flags", a)
		}
		expect(t, st, failure.Stats{Fallbacks: 4, Failures: 3, Late: 3, Outages: 1, Probes: 4})
	})
}

// Requests beyond MaxDetached are decided by the policy, and do not open the breaker.
func TestTooManyDetached(t *testing.T) {
	each(t, func(t *testing.T, flag rule.Flags, policy failure.Policy, take func(store.Store) rule.Answer) {
		inner := newRemote(t)
		inner.slow(50 * time.Millisecond)
		store := newStore(t, inner, policy, failure.Options{MaxDetached: 2})
		var wg sync.WaitGroup
		for range 2 {
			wg.Go(func() {
				if a := take(store); a.Flags != 0 {
					t.Errorf("one of two: got %+v, want no flags", a)
				}
			})
		}
		synctest.Wait()
		if a := take(store); a.Flags != flag {
			t.Errorf("a third: got %+v, want the flag of the fallback", a)
		}
		expect(t, store, failure.Stats{Fallbacks: 1, Detached: 2})
		wg.Wait()
		if a := take(store); a.Flags != 0 {
			t.Errorf("after them: got %+v, want no flags", a)
		}
		expect(t, store, failure.Stats{Fallbacks: 1})
	})
}

// A panic on a goroutine of the layer is a failure of the store, and its text is omitted, since it may contain a key. A
// panic on the caller's goroutine is left to the caller to recover, and the layer continues to work.
func TestPanics(t *testing.T) {
	each(t, func(t *testing.T, flag rule.Flags, policy failure.Policy, take func(store.Store) rule.Answer) {
		var fallbackErr error
		nothing := 0
		for _, c := range []struct {
			value func()
			text  string
		}{
			{func() { panic("secret") }, "failure: store unavailable: failure: the store panicked with a string"},
			{func() { _ = make([]int, nothing)[nothing] },
				"failure: store unavailable: failure: the store panicked: runtime error: index out of range [0] with length 0"},
		} {
			inner := newRemote(t)
			inner.do(func(context.Context, []store.Request) error { c.value(); return nil })
			st := newStore(t, inner, policy, failure.Options{MaxDetached: 1, OnFallback: func(_ context.Context, _ rule.Op, err error) { fallbackErr = err }})
			if a := take(st); a.Flags != flag || fallbackErr.Error() != c.text {
				t.Errorf("got %+v, OnFallback got %v", a, fallbackErr)
			}
			expect(t, st, failure.Stats{Fallbacks: 1, Failures: 1, Outages: 1, Down: true})
		}
		inner := newRemote(t)
		st := newStore(t, inner, policy, failure.Options{})
		inner.fail(errDown)
		take(st)
		time.Sleep(time.Second)
		inner.do(func(context.Context, []store.Request) error { panic("a probe") })
		func() {
			defer func() {
				if recover() == nil {
					t.Error("the panic did not reach the caller")
				}
			}()
			take(st)
		}()
		inner.heal()
		time.Sleep(time.Second)
		if a := take(st); a.Flags != 0 {
			t.Errorf("after a probe that panicked: got %+v, want no flags", a)
		}
	})
}

// A detached call returns all of the store's answers, in their order.
func TestDetachedAnswers(t *testing.T) {
	inner := newRemote(t)
	store := newStore(t, inner, failure.Closed(), failure.Options{MaxDetached: 100, Timeout: time.Hour})
	limiter, err := slidegate.New(store, ten, bucket)
	if err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	var mu sync.Mutex
	admitted := 0
	for range 50 {
		wg.Go(func() {
			d, err := limiter.Allow(t.Context(), "k")
			mu.Lock()
			defer mu.Unlock()
			if err != nil || d.Flags.FallbackClosed() || len(d.Answers) != 2 {
				t.Errorf("got %+v, %v, want two answers, none of the fallback", d, err)
			}
			if d.Allowed {
				admitted++
			}
		})
	}
	wg.Wait()
	if admitted != 5 {
		t.Errorf("got %d admitted, want 5", admitted)
	}
}
