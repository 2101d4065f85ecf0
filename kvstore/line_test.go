package kvstore_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/slidegate/slidegate/internal/testkit"
	"github.com/slidegate/slidegate/kvstore"
	"github.com/slidegate/slidegate/kvstore/kvtest"
	"github.com/slidegate/slidegate/rule"
	"github.com/slidegate/slidegate/store"
)

// slow is an engine that takes a second for every call.
func slow() *kvtest.Table {
	return &kvtest.Table{Before: func(context.Context, kvtest.Call) error {
		testkit.Delay(time.Second)
		return nil
	}}
}

// One swap decides for all callers that wait for an entry, up to a bound, in the order of their arrival.
func TestCallersAreDecidedTogether(t *testing.T) {
	const callers = 2*kvstore.TogetherForTest + 1
	synctest.Test(t, func(t *testing.T) {
		engine := slow()
		limiter := hourlyLimiter(t, newStore(t, engine, kvstore.Options{Timeout: time.Minute}), callers)
		var group sync.WaitGroup
		for i := range callers + 10 {
			group.Go(func() {
				d, err := limiter.Allow(t.Context(), "key")
				if err != nil || d.Allowed != (i < callers) {
					t.Errorf("caller %d: got allowed %t, %v, want %t", i, d.Allowed, err, i < callers)
				}
			})
			synctest.Wait() // so that they arrive in order
		}
		group.Wait()
		// One swap for the first caller, two for the callers that arrived during it, and a read for the last ones, which are
		// refused.
		if got, want := engine.Counts(), (kvtest.Counts{Gets: 2, Swaps: 3}); got != want {
			t.Errorf("%+v, want %+v", got, want)
		}
	})
}

// The batch of a single caller may exceed the bound on what is decided together. Its requests are decided in order.
func TestLargeBatch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		engine := &kvtest.Table{}
		s := newStore(t, engine, kvstore.Options{})
		var batch []store.Request
		for i := range 3 * kvstore.TogetherForTest {
			batch = append(batch, request(rule.Take, fmt.Sprint("key ", i%3)))
		}
		if err := s.Apply(t.Context(), batch); err != nil {
			t.Fatal(err)
		}
		for i := range batch {
			if a := batch[i].Answers[0]; a.Allowed != (i/3 < quota) || a.Remaining != max(0, int64(quota-1-i/3)) {
				t.Fatalf("request %d: got %+v, want allowed %t, Remaining %d", i, a, i/3 < quota, max(0, quota-1-i/3))
			}
		}
		if got, want := engine.Counts(), (kvtest.Counts{Gets: 3, Swaps: 3}); got != want {
			t.Errorf("%+v, want %+v", got, want)
		}
		if synctest.Wait(); s.LinesForTest() != 0 {
			t.Errorf("%d lines are left, want none", s.LinesForTest())
		}
	})
}

// A caller that leaves while it waits behind others is never charged. A caller whose decision is under way may be charged.
func TestCallersThatLeave(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		engine := slow()
		s := newStore(t, engine, kvstore.Options{Timeout: time.Minute})
		leave := func(after time.Duration) {
			ctx, cancel := context.WithTimeout(t.Context(), after)
			defer cancel()
			batch := []store.Request{request(rule.Take, "key")}
			begun := time.Now()
			if err := s.Apply(ctx, batch); !errors.Is(err, context.DeadlineExceeded) || time.Since(begun) != after {
				t.Errorf("after %v: %v", time.Since(begun), err)
			}
			// From now on the memory belongs to the caller again.
			batch[0].Charges[0] = store.Charge{}
			batch[0].Answers[0] = rule.Answer{}
			batch[0] = store.Request{}
		}
		var group sync.WaitGroup
		group.Go(func() { leave(500 * time.Millisecond) })
		synctest.Wait()
		group.Go(func() { leave(400 * time.Millisecond) })
		group.Go(func() { leave(900 * time.Millisecond) })
		group.Wait()
		if names := engine.Names(); len(names) != 0 {
			t.Errorf("the entries %q exist before the swap is done", names)
		}
		testkit.Pass(time.Minute)
		engine.Before = nil
		if n := used(t, engine, "key"); n != 1 {
			t.Errorf("%d units are used, want 1, for the caller whose decision was under way", n)
		}
		if n := s.LinesForTest(); n != 0 {
			t.Errorf("%d lines are left, want none", n)
		}
	})
}

// If the engine hangs, callers wait for the timeout, and callers behind them for another one. Once it has recovered, no caller
// waits.
func TestTimeout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		hangs := true
		engine := &kvtest.Table{Before: func(ctx context.Context, _ kvtest.Call) error {
			if hangs {
				<-ctx.Done()
			}
			return ctx.Err()
		}}
		s := newStore(t, engine, kvstore.Options{Timeout: 300 * time.Millisecond})
		begun := time.Now()
		var group sync.WaitGroup
		for i := range 10 {
			group.Go(func() {
				batch := []store.Request{request(rule.Take, "key")}
				err := s.Apply(t.Context(), batch)
				took := time.Since(begun)
				if !errors.Is(err, context.DeadlineExceeded) || took != time.Duration(min(i, 1)+1)*300*time.Millisecond {
					t.Errorf("caller %d: %v after %v", i, err, took)
				}
			})
			synctest.Wait()
		}
		group.Wait()
		hangs = false
		take(t, s, "key", true)
		if n := used(t, engine, "key"); n != 1 {
			t.Errorf("%d units are used, want 1", n)
		}
	})
}

// Different entries do not wait for one another.
func TestEntriesAreDecidedConcurrently(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStore(t, slow(), kvstore.Options{Timeout: time.Minute})
		var batch []store.Request
		for i := range 50 {
			batch = append(batch, request(rule.Take, fmt.Sprint("key ", i)))
		}
		begun := time.Now()
		if err := s.Apply(t.Context(), batch); err != nil || time.Since(begun) != 2*time.Second {
			t.Errorf("%v after %v, want no error after two seconds", err, time.Since(begun))
		}
	})
}
