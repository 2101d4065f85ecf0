package coalesce_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/slidegate/slidegate"
	"github.com/slidegate/slidegate/internal/batches"
	"github.com/slidegate/slidegate/internal/layer/coalesce"
	"github.com/slidegate/slidegate/internal/testkit"
	"github.com/slidegate/slidegate/rule"
	"github.com/slidegate/slidegate/store"
)

// A caller that leaves before its request is sent is not charged, does not wait, and affects no other caller, at any
// position in the queue.
func TestLeavesTheQueue(t *testing.T) {
	for place := range 3 {
		t.Run(fmt.Sprint(place), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				inner := newRecorder(t, slow)
				store, limit := newStore(t, inner, coalesce.Options{InFlight: 1}), bind(t, slidegate.PerHour(100))
				ctx, cancel := context.WithCancel(t.Context())
				send(t.Context(), store, limit, "first")
				var all []*pendingRequest
				for i := range 3 {
					callCtx := t.Context()
					if i == place {
						callCtx = ctx
					}
					all = append(all, send(callCtx, store, limit, fmt.Sprint("key-", i)))
				}
				start := time.Now()
				cancel()
				<-all[place].done
				expectEnded(t, all[place], context.Canceled, "nothing is charged")
				if !isUndone(all[place].err) {
					t.Errorf("%v does not say that the request was not carried out", all[place].err)
				}
				if waited := time.Since(start); waited != 0 || store.Waiting() != 2 {
					t.Errorf("leaving took %v, and %d requests still wait", waited, store.Waiting())
				}
				for i, a := range all {
					if i != place {
						a.expect(t, 99)
					}
				}
				if used := inner.used(t, limit, fmt.Sprint("key-", place)); used != 0 {
					t.Errorf("the caller that left is charged %d units, want 0", used)
				}
				expectIdle(t, store)
			})
		})
	}
}

// A caller that leaves after its request was sent does not wait either, but is charged, and its memory is no longer
// written to. The other callers of the call get their answers.
func TestLeavesASharedCall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		inner := newRecorder(t, func(ctx context.Context, batch []store.Request) error {
			testkit.Delay(2 * time.Millisecond)
			return ctx.Err()
		})
		st, limit := newStore(t, inner, coalesce.Options{InFlight: 1}), bind(t, slidegate.PerHour(100))
		ctx, cancel := context.WithTimeout(t.Context(), 3*time.Millisecond)
		defer cancel()
		first := send(t.Context(), st, limit, "first")
		batch := []store.Request{take(limit, "leaver", 1)}
		leaver := make(chan error)
		go func() { leaver <- st.Apply(ctx, batch) }()
		synctest.Wait()
		stayer := send(t.Context(), st, limit, "stayer")
		start := time.Now()
		err := <-leaver
		expectEnded(t, &pendingRequest{err: err}, context.DeadlineExceeded, "before the store answered")
		if waited := time.Since(start); waited != 3*time.Millisecond || batch[0].Err != err {
			t.Errorf("it left after %v, and the error of its request is %v", waited, batch[0].Err)
		}
		// The memory belongs to the caller again, which reuses it.
		other, mark := store.Charge{Limit: limit, Key: "other", Cost: 7}, rule.Answer{Remaining: -1}
		batch[0].Charges[0], batch[0].Answers[0], batch[0].Err = other, mark, nil
		first.expect(t, 99)
		stayer.expect(t, 99)
		if inner.used(t, limit, "leaver") != 1 || inner.used(t, limit, "other") != 0 {
			t.Error("a caller that left after its request was sent is not charged: the call was ended, or read the caller's memory")
		}
		if batch[0].Err != nil || batch[0].Answers[0] != mark || batch[0].Charges[0] != other {
			t.Errorf("the memory of a caller that had left was written to: %+v", batch[0])
		}
		expectIdle(t, st)
	})
}

// A shared call's context has no caller's values and ends after Timeout, also if all of its callers have left: its addresses
// are in flight until then.
func TestContextOfASharedCall(t *testing.T) {
	type own struct{}
	synctest.Test(t, func(t *testing.T) {
		var shared context.Context
		inner := newRecorder(t, func(ctx context.Context, batch []store.Request) error {
			if batch[0].Charges[0].Key == "first" {
				return slow(ctx, batch)
			}
			shared = ctx
			<-ctx.Done()
			return batches.FailAll(batch, ctx.Err())
		})
		store, limit := newStore(t, inner, coalesce.Options{InFlight: 1, Timeout: time.Hour}), bind(t, slidegate.PerHour(100))
		ctx, cancel := context.WithCancel(context.WithValue(t.Context(), own{}, "mine"))
		send(t.Context(), store, limit, "first")
		one, other := send(ctx, store, limit, "one"), send(t.Context(), store, limit, "other")
		sent := time.Now().Add(time.Millisecond)
		testkit.Delay(time.Minute)
		synctest.Wait()
		if deadline, ok := shared.Deadline(); !ok || !deadline.Equal(sent.Add(time.Hour)) || shared.Value(own{}) != nil {
			t.Errorf("the context ends at %v, and has the value %v", deadline, shared.Value(own{}))
		}
		cancel()
		if !one.isDone() || other.isDone() || shared.Err() != nil {
			t.Errorf("one left: done is %v and %v, the error of the call's context is %v", one.isDone(), other.isDone(), shared.Err())
		}
		testkit.Delay(time.Hour)
		<-other.done
		expectEnded(t, other, context.DeadlineExceeded, "did not answer within Timeout, 1h0m0s")

		ctx, cancel = context.WithCancel(t.Context())
		send(t.Context(), store, limit, "first")
		one, other = send(ctx, store, limit, "one"), send(ctx, store, limit, "other")
		testkit.Delay(time.Minute)
		synctest.Wait()
		cancel()
		if !one.isDone() || !other.isDone() || shared.Err() != nil {
			t.Errorf("all left: done is %v and %v, the error of the call's context is %v", one.isDone(), other.isDone(), shared.Err())
		}
		calls := len(inner.seen())
		again := send(t.Context(), store, limit, "one")
		testkit.Delay(58 * time.Minute)
		if again.isDone() || len(inner.seen()) != calls || shared.Err() != nil {
			t.Errorf("the address was sent again while it is in flight: %q, or the call has ended: %v", inner.seen()[calls:], shared.Err())
		}
		expectIdle(t, store)
	})
}

// A request whose context has already ended does not enter the queue.
func TestContextAlreadyEnded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		inner := newRecorder(t, slow)
		store, limit := newStore(t, inner, coalesce.Options{InFlight: 1}), bind(t, slidegate.PerHour(100))
		ended, cancel := context.WithCancel(t.Context())
		cancel()
		send(t.Context(), store, limit, "first")
		late := send(ended, store, limit, "late")
		if !late.isDone() {
			t.Error("a request with an ended context waits")
		}
		expectEnded(t, late, context.Canceled, "nothing is charged")
		allowed, _, _, _, _, at, err := store.TakeSingle(ended, limit, "late", 1)
		if expectEnded(t, &pendingRequest{err: err}, context.Canceled, "nothing is charged"); allowed || at != 0 {
			t.Error("got an answer as well as an error")
		}
		testkit.Delay(time.Minute)
		if calls := inner.seen(); len(calls) != 1 {
			t.Errorf("calls %v", calls)
		}
	})
}

// An answer that is ready when the context ends is preferred to an error: the request is charged.
func TestAnsweredAsTheContextEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		inner := newRecorder(t, slow)
		st, limit := newStore(t, inner, coalesce.Options{InFlight: 1}), bind(t, slidegate.PerHour(100))
		for range 50 { // the call and the context end at the same time
			send(t.Context(), st, limit, "first")
			a := send(ctx, st, limit, "key")
			testkit.Delay(2 * time.Millisecond)
			cancel()
			<-a.done
			charged := inner.used(t, limit, "key") == 1
			if a.err == nil && (!charged || a.answer.Remaining != 99) {
				t.Fatalf("answered %+v, charged %v", a.answer, charged)
			}
			reset := []store.Request{request(rule.Reset, store.Charge{Limit: limit, Key: "key"})}
			if err := st.Apply(t.Context(), reset); err != nil {
				t.Fatal(err)
			}
			ctx, cancel = context.WithCancel(t.Context())
		}
		cancel()
		expectIdle(t, st)
	})
}

// isUndone is a function because variables named store hide the package.
func isUndone(err error) bool { return errors.Is(err, store.ErrUndone) }

func expectEnded(t *testing.T, a *pendingRequest, want error, text string) {
	t.Helper()
	if !errors.Is(a.err, want) || !strings.HasPrefix(a.err.Error(), "coalesce: ") || !strings.Contains(a.err.Error(), text) {
		t.Errorf("got error %v, want %v with the text %q", a.err, want, text)
	}
	if a.answer != (rule.Answer{}) {
		t.Errorf("got the answer %+v as well as an error", a.answer)
	}
}

// expectIdle checks that no slot is taken and no request waits. It needs a synctest bubble.
func expectIdle(t *testing.T, store *coalesce.Store) {
	t.Helper()
	testkit.Delay(24 * time.Hour)
	synctest.Wait()
	if store.Slots() != 0 || store.Waiting() != 0 {
		t.Errorf("%d slots are taken and %d requests wait, want none", store.Slots(), store.Waiting())
	}
}
