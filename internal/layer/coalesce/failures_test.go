package coalesce_test

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/slidegate/slidegate"
	"github.com/slidegate/slidegate/internal/layer/coalesce"
	"github.com/slidegate/slidegate/internal/testkit"
	"github.com/slidegate/slidegate/rule"
	"github.com/slidegate/slidegate/store"
)

var errOdd = errors.New("odd: no")

// An error of one request goes to its own caller, and Apply returns the first error of that caller's batch.
func TestErrorsGoToTheirCallers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		inner := newRecorder(t, slow)
		inner.Store = refusingStore{inner.Store}
		st, limit := newStore(t, inner, coalesce.Options{InFlight: 1}), bind(t, slidegate.PerHour(100))
		send(t.Context(), st, limit, "first")
		good, odd := send(t.Context(), st, limit, "a"), send(t.Context(), st, limit, "odd")
		good2 := send(t.Context(), st, limit, "b")
		batch := []store.Request{take(limit, "c", 1), take(limit, "odd", 1), take(limit, "odd2", 1), take(limit, "d", 1)}
		err := st.Apply(t.Context(), batch)
		good.expect(t, 99)
		good2.expect(t, 99)
		if <-odd.done; odd.err != errOdd || odd.answer != (rule.Answer{}) {
			t.Errorf("the odd request got %+v, %v", odd.answer, odd.err)
		}
		var errs []error
		for i := range batch {
			errs = append(errs, batch[i].Err)
		}
		if err != errOdd || errs[0] != nil || errs[1] != errOdd || errs[3] != nil {
			t.Errorf("got error %v of %v, want errOdd of the second request only", err, errs)
		}
		if errs[2] == nil || errs[2] == errOdd {
			t.Errorf("the third request got %v, want its own error", errs[2])
		}
		if calls := inner.seen(); len(calls) != 2 {
			t.Errorf("calls %v", calls)
		}
	})
}

// refusingStore returns an error for odd keys.
type refusingStore struct{ store.Store }

func (r refusingStore) Apply(ctx context.Context, batch []store.Request) error {
	var first error
	for i := range batch {
		err := r.Store.Apply(ctx, batch[i:i+1])
		switch batch[i].Charges[0].Key {
		case "odd":
			batch[i].Err = errOdd
		case "odd2":
			batch[i].Err = fmt.Errorf("another: %w", errOdd)
		default:
			batch[i].Err = err
		}
		if first == nil {
			first = batch[i].Err
		}
	}
	return first
}

// A store that breaks the contract by leaving requests unchanged is not taken to have refused them.
func TestUnansweredIsAnError(t *testing.T) {
	for _, c := range []struct{ returned, want error }{{errOdd, errOdd}, {nil, coalesce.ErrUnanswered}} {
		synctest.Test(t, func(t *testing.T) {
			limit := bind(t, slidegate.PerHour(100))
			store := newStore(t, sloppyStore{newMemory(t, nil), c.returned}, coalesce.Options{InFlight: 1})
			send(t.Context(), store, limit, "first")
			second := send(t.Context(), store, limit, "second")
			if <-second.done; second.err != c.want {
				t.Errorf("the store returned %v, the caller got %v", c.returned, second.err)
			}
		})
	}
}

type sloppyStore struct {
	store.Store
	returned error
}

func (s sloppyStore) Apply(ctx context.Context, batch []store.Request) error {
	_ = slow(ctx, batch)
	return s.returned
}

// Requests with too few answers are left for the store to reject, and surplus answers are left unchanged.
func TestNumberOfAnswers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st, limit := newStore(t, newRecorder(t, slow), coalesce.Options{InFlight: 1}), bind(t, slidegate.PerHour(100))
		send(t.Context(), st, limit, "first")
		mark := rule.Answer{Remaining: -1}
		none, more := take(limit, "none", 1), take(limit, "more", 1)
		none.Answers, more.Answers = nil, []rule.Answer{mark, mark}
		batch := []store.Request{none, more}
		if err := st.Apply(t.Context(), batch); !errors.Is(err, store.ErrUnsupported) || batch[0].Err != err {
			t.Errorf("no space for an answer: %v", err)
		}
		if a := batch[1].Answers; batch[1].Err != nil || len(a) != 2 || a[0].Remaining != 99 || a[1] != mark {
			t.Errorf("one answer too many: got %+v, %v, want 99 left, and the second answer unchanged", a, batch[1].Err)
		}
	})
}

// A panic of the store goes to its caller, or in a shared call to the caller that waited longest, and leaves no caller
// waiting.
func TestPanicLeavesNoCallerWaiting(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		inner := newRecorder(t, func(ctx context.Context, batch []store.Request) error {
			testkit.Delay(time.Millisecond)
			for i := range batch {
				if batch[i].Charges[0].Key == "bad" {
					panic(fmt.Errorf("secret: %w", errOdd))
				}
			}
			return nil
		})
		store, limit := newStore(t, inner, coalesce.Options{InFlight: 1}), bind(t, slidegate.PerHour(100))
		alone := send(t.Context(), store, limit, "bad")
		ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond*3/2)
		defer cancel()
		gone, oldest := send(ctx, store, limit, "a"), send(t.Context(), store, limit, "b")
		bad := send(t.Context(), store, limit, "bad")
		testkit.Delay(time.Millisecond)
		synctest.Wait()
		next := send(t.Context(), store, limit, "next") // made while the bad call is under way

		<-alone.done
		if err, ok := alone.panicked.(error); !ok || !errors.Is(err, errOdd) || err.Error() != "secret: odd: no" {
			t.Errorf("the lone caller panicked with %v", alone.panicked)
		}
		<-gone.done
		expectEnded(t, gone, context.DeadlineExceeded, "before the store answered")
		<-oldest.done
		p, ok := oldest.panicked.(*coalesce.Panic)
		if !ok || !errors.Is(p, errOdd) || !strings.Contains(string(p.Stack), "TestPanicLeavesNoCallerWaiting") ||
			!strings.Contains(p.Error(), "secret") {
			t.Errorf("the oldest caller panicked with %v, want a *Panic with the store's value, text and stack", oldest.panicked)
		}
		<-bad.done
		if bad.panicked != nil || bad.err == nil || !strings.HasPrefix(bad.err.Error(), "coalesce: ") ||
			strings.Contains(bad.err.Error(), "secret") {
			t.Errorf("another caller of the call got %v, panic %v, want an error of coalesce without the panic's text", bad.err, bad.panicked)
		}
		next.expect(t, 99)
		expectIdle(t, store)
	})
}

// A panic is lost if all callers have left. Nothing else is lost.
func TestPanicAfterAllLeft(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		inner := newRecorder(t, func(ctx context.Context, batch []store.Request) error {
			if batch[0].Charges[0].Key == "bad" {
				<-ctx.Done()
				panic("gone")
			}
			return slow(ctx, batch)
		})
		store, limit := newStore(t, inner, coalesce.Options{InFlight: 1}), bind(t, slidegate.PerHour(100))
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Millisecond)
		defer cancel()
		send(t.Context(), store, limit, "first")
		bad := send(ctx, store, limit, "bad")
		<-bad.done
		expectEnded(t, bad, context.DeadlineExceeded, "before the store answered")
		send(t.Context(), store, limit, "after").expect(t, 99)
		expectIdle(t, store)
	})
}

// A store that ends the goroutine, as t.Fatal does, leaves no caller waiting either.
func TestGoexitLeavesNoCallerWaiting(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		inner := newRecorder(t, func(ctx context.Context, batch []store.Request) error {
			testkit.Delay(time.Millisecond)
			if strings.HasPrefix(batch[0].Charges[0].Key, "bad") {
				runtime.Goexit()
			}
			return nil
		})
		store, limit := newStore(t, inner, coalesce.Options{InFlight: 1, MaxBatch: 2}), bind(t, slidegate.PerHour(100))
		send(t.Context(), store, limit, "bad and alone")
		bad, with := send(t.Context(), store, limit, "bad"), send(t.Context(), store, limit, "with")
		next := send(t.Context(), store, limit, "next")
		for _, a := range []*pendingRequest{bad, with} {
			if <-a.done; a.err == nil || a.panicked != nil {
				t.Errorf("got %+v, %v, panic %v", a.answer, a.err, a.panicked)
			}
		}
		next.expect(t, 99)
		expectIdle(t, store)
	})
}

// Calls that hang in all slots, and in those for long round trips, delay other callers for Timeout and no longer; when they
// return they have no slot to free.
func TestHangingCall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		hang, hangs := make(chan struct{}), true
		inner := newRecorder(t, func(ctx context.Context, batch []store.Request) error {
			if hangs {
				<-hang // ignores its context
			}
			return slow(ctx, batch)
		})
		store, limit := newStore(t, inner, coalesce.Options{InFlight: 2, Timeout: time.Second}), bind(t, slidegate.PerHour(100))
		var stuck *pendingRequest
		for i := range 2 + coalesce.MaxExtra {
			stuck = send(t.Context(), store, limit, fmt.Sprint("hangs", i))
			testkit.Delay(10 * time.Millisecond)
		}
		synctest.Wait()
		hangs = false
		if inner.most != 2+coalesce.MaxExtra {
			t.Fatalf("%d calls hang", inner.most)
		}
		start := time.Now()
		a, b := send(t.Context(), store, limit, "a"), send(t.Context(), store, limit, "b")
		a.expect(t, 99)
		b.expect(t, 99)
		if waited := time.Since(start); waited < time.Second-10*coalesce.MaxExtra*time.Millisecond || waited > time.Second+time.Millisecond {
			t.Errorf("waited for %v", waited)
		}
		send(t.Context(), store, limit, fmt.Sprint("hangs", 1+coalesce.MaxExtra)).expect(t, 99) // waits for the last one
		synctest.Wait()                                                                         // slots are freed after the answers
		if store.Slots() != 0 || stuck.isDone() {
			t.Errorf("%d slots are taken", store.Slots())
		}
		// Others are sent immediately again, and at most two at a time, also when the hung calls return.
		inner.mu.Lock()
		inner.now, inner.most = 0, 0
		inner.mu.Unlock()
		start = time.Now()
		var all []*pendingRequest
		for i := range 2 {
			all = append(all, send(t.Context(), store, limit, fmt.Sprint("c", i)))
		}
		close(hang)
		<-stuck.done
		for i := range 3 {
			all = append(all, send(t.Context(), store, limit, fmt.Sprint("d", i)))
		}
		for _, a := range all {
			a.expect(t, 99)
		}
		if waited := time.Since(start); waited > 3*time.Millisecond || inner.most > 2 {
			t.Errorf("waited for %v, with %d concurrent calls", waited, inner.most)
		}
		expectIdle(t, store)
	})
}

// The watchdog keeps checking while a request waits, and starts again after it has stopped.
func TestWatchdogRestarts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		hang, hangs := make(chan struct{}), true
		inner := newRecorder(t, func(ctx context.Context, batch []store.Request) error {
			if hangs {
				hangs = false
				<-hang
			}
			return slow(ctx, batch)
		})
		store := newStore(t, inner, coalesce.Options{InFlight: 1, Timeout: time.Second})
		limit := bind(t, slidegate.PerHour(100))
		for round := range 3 {
			hangs = true
			send(t.Context(), store, limit, fmt.Sprint(round))
			testkit.Delay(time.Minute)
			start := time.Now()
			send(t.Context(), store, limit, fmt.Sprint(round)).expect(t, 99)
			if waited := time.Since(start); waited != time.Second+time.Millisecond {
				t.Errorf("round %d: waited for %v", round, waited)
			}
		}
		close(hang)
		expectIdle(t, store)
	})
}

// Calls that return in time are not abandoned, however long a request waits for their address.
func TestNotGivenUpInTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		inner := newRecorder(t, func(context.Context, []store.Request) error {
			testkit.Delay(995 * time.Millisecond)
			return nil
		})
		store := newStore(t, inner, coalesce.Options{InFlight: 1, MaxBatch: 1, Timeout: time.Second})
		limit := bind(t, slidegate.PerHour(100))
		start := time.Now()
		var all []*pendingRequest
		for range 20 {
			all = append(all, send(t.Context(), store, limit, "hot"))
		}
		for i, a := range all {
			a.expect(t, int64(99-i))
		}
		if took := time.Since(start); took != 20*995*time.Millisecond || inner.most != 1 {
			t.Errorf("20 calls of 0.995s took %v, with %d concurrent", took, inner.most)
		}
		// The watchdog stops and starts again during a call: that makes the call no older.
		send(t.Context(), store, limit, "x")
		for range 60 {
			leaving, cancel := context.WithTimeout(t.Context(), time.Millisecond)
			<-send(leaving, store, limit, "x").done
			cancel()
			testkit.Delay(9 * time.Millisecond)
		}
		send(t.Context(), store, limit, "x").expect(t, 98)
		if inner.most != 1 {
			t.Errorf("%d concurrent calls", inner.most)
		}
		expectIdle(t, store)
	})
}

// Beyond MaxQueue requests fail immediately and are not sent.
func TestFullQueue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		inner := newRecorder(t, slow)
		st, limit := newStore(t, inner, coalesce.Options{InFlight: 1, MaxQueue: 3}), bind(t, slidegate.PerHour(100))
		large := make([]store.Request, 5)
		for i := range large {
			large[i] = take(limit, "large", 1)
		}
		send(t.Context(), st, limit, "first")
		waiting := []*pendingRequest{send(t.Context(), st, limit, "a"), send(t.Context(), st, limit, "b")}
		if err := st.Apply(t.Context(), large[:2]); !errors.Is(err, coalesce.ErrFull) || large[1].Err != err {
			t.Errorf("5 requests in a queue of 3: %v", err)
		}
		waiting = append(waiting, send(t.Context(), st, limit, "c"))
		full := send(t.Context(), st, limit, "d")
		if !full.isDone() || !errors.Is(full.err, coalesce.ErrFull) || !strings.HasPrefix(full.err.Error(), "coalesce: ") {
			t.Errorf("the fourth request in a queue of 3 got %v", full.err)
		}
		if !errors.Is(full.err, store.ErrUndone) || !errors.Is(full.err, store.ErrBusy) {
			t.Errorf("%v does not say that the request was not carried out, or not that the store is busy", full.err)
		}
		ended, cancel := context.WithCancel(t.Context())
		cancel()
		if gone := send(ended, st, limit, "e"); !gone.isDone() || !errors.Is(gone.err, context.Canceled) {
			t.Errorf("the request with an ended context got %v", gone.err)
		}
		for _, a := range waiting {
			a.expect(t, 99)
		}
		// A batch that is larger than the queue may wait alone.
		send(t.Context(), st, limit, "first")
		if err := st.Apply(t.Context(), large); err != nil || large[4].Answers[0].Remaining != 95 {
			t.Errorf("5 requests in an empty queue for 3: got %v, want Remaining 95", err)
		}
		want := [][]string{{"first"}, {"a", "b", "c"}, {"first"}, {"large", "large", "large", "large", "large"}}
		if got := inner.seen(); !reflect.DeepEqual(got, want) {
			t.Errorf("calls %v", got)
		}
	})
}
