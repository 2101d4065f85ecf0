package failure_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/slidegate/slidegate"
	"github.com/slidegate/slidegate/internal/answering"
	"github.com/slidegate/slidegate/internal/batches"
	"github.com/slidegate/slidegate/internal/layer/failure"
	"github.com/slidegate/slidegate/internal/testkit"
	"github.com/slidegate/slidegate/rule"
	"github.com/slidegate/slidegate/store"
)

// used returns how many of ten units are used in a store.
func used(t testing.TB, st store.Store, key string) int64 {
	t.Helper()
	a, err := apply(t, st, rule.Peek, store.Charge{Limit: bind(t, ten), Key: key})
	if err != nil {
		t.Fatal(err)
	}
	return 10 - a.Remaining
}

// With FailClosed, operations other than takes and peeks are errors during an outage: the caller must know that they were not
// done.
func TestSettlementsAreNotAnswered(t *testing.T) {
	for _, mode := range []store.Mode{store.FailClosed} {
		inner := newRemote(t)
		inner.fail(errDown)
		st := newStore(t, inner, mode, failure.Options{})
		for _, op := range []rule.Op{rule.Charge, rule.GiveBack, rule.Reset, rule.GiveBack} {
			charge := store.Charge{Limit: bind(t, ten), Key: "k", Cost: 1}
			if op == rule.GiveBack {
				charge.At = 1_700_000_000_000_000
			}
			if _, err := apply(t, st, op, charge); !errors.Is(err, failure.ErrUnavailable) || !errors.Is(err, errDown) {
				t.Errorf("%v, op %d: %v", mode, op, err)
			}
		}
		expect(t, st, failure.Stats{Undecided: 4, Failures: 1, Outages: 1, Down: true})
	}
}

// A reservation is returned to the store it was taken from, whatever the state of the store by then, and to no other.
func TestReservationsGoBackWhereTheyWereTaken(t *testing.T) {
	for mode, flag := range modes {
		if flag == rule.FallbackClosed {
			continue // it takes nothing
		}
		synctest.Test(t, func(t *testing.T) {
			inner, memory := newRemote(t), newMemory(t)
			store := newStore(t, inner, mode, failure.Options{Local: memory})
			limiter, err := slidegate.New(store, ten)
			if err != nil {
				t.Fatal(err)
			}
			check := func(when string, atStore, atFallback int64) {
				t.Helper()
				if flag == rule.FallbackOpen {
					atFallback = 0
				}
				if s, f := used(t, inner.Store, "k"), used(t, memory, "k"); s != atStore || f != atFallback {
					t.Errorf("flag %d, %s: got %d used in the store and %d in the fallback, want %d and %d", flag, when, s, f, atStore, atFallback)
				}
			}
			reserve := func(n int64, want rule.Flags) slidegate.Reservation {
				t.Helper()
				r, d, err := limiter.Reserve(t.Context(), "k", n)
				if err != nil || !d.Allowed || d.Flags != want {
					t.Fatalf("reserved: got %+v, %v, want allowed, flags %v", d, err, want)
				}
				return r
			}
			atStore := reserve(4, 0)
			inner.fail(errDown)
			first, second := reserve(5, flag), reserve(1, flag)
			check("all taken", 4, 6)
			if _, err := limiter.Cancel(t.Context(), atStore); !errors.Is(err, failure.ErrUnavailable) {
				t.Errorf("units of the store were refunded without it: %v", err)
			}
			check("nothing refunded", 4, 6)
			if _, err := limiter.SettleAll(t.Context(), first, 2); err != nil {
				t.Error(err)
			}
			check("settled in the outage", 4, 3)
			inner.heal()
			testkit.Pass(time.Second)
			if store.Stats().Down {
				t.Fatal("still down")
			}
			if _, err := limiter.Cancel(t.Context(), second); err != nil {
				t.Error(err)
			}
			check("cancelled after the outage", 4, 2)
			if _, err := limiter.Cancel(t.Context(), atStore); err != nil {
				t.Error(err)
			}
			check("the store's refunded", 0, 2)
		})
	}
}

// A store that is called without the layer finds nothing to refund at the times of a fallback.
func TestNegativeTimesRefundNothing(t *testing.T) {
	for _, limit := range []slidegate.Limit{
		ten, bucket, {Quota: 10, Window: time.Hour, Segments: 6, Anchor: slidegate.AnchorFirst},
		{Quota: 10, Window: time.Hour, Algorithm: slidegate.FixedWindow}, {Quota: 10, Window: time.Hour, Algorithm: slidegate.SlidingLog},
	} {
		memory, bound := newMemory(t), bind(t, limit)
		a, err := apply(t, memory, rule.Take, store.Charge{Limit: bound, Key: "k", Cost: 5})
		if err != nil || !a.Allowed {
			t.Fatalf("%v: got %+v, %v, want it allowed", limit, a, err)
		}
		for _, mark := range []int{0, 1, answering.MaxMark} {
			back, err := apply(t, memory, rule.GiveBack, store.Charge{Limit: bound, Key: "k", Cost: 5, At: answering.Mark(a.At, mark)})
			if err != nil || back.Granted != 0 {
				t.Errorf("%v, mark %d: got %+v, %v, want nothing granted", limit, mark, back, err)
			}
		}
	}
}

// Local: operations of the fallback other than takes and peeks.
func TestLocalSettlements(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		inner, memory := newRemote(t), newMemory(t)
		st := newStore(t, inner, store.FailLocal, failure.Options{Local: memory})
		k := store.Charge{Limit: bind(t, ten), Key: "k", Cost: 3}
		do := func(op rule.Op, flag rule.Flags, granted, atStore, atFallback int64) {
			t.Helper()
			a, err := apply(t, st, op, k)
			if err != nil || a.Flags != flag || a.Granted != granted || (a.At < 0) != (flag != 0) {
				t.Errorf("op %v: got %+v, %v, want flags %v, %d granted, and a negative time of the fallback alone", op, a, err, flag, granted)
			}
			if s, f := used(t, inner.Store, "k"), used(t, memory, "k"); s != atStore || f != atFallback {
				t.Errorf("got %d used in the store and %d in the fallback, want %d and %d", s, f, atStore, atFallback)
			}
		}
		do(rule.Take, 0, 3, 3, 0)
		do(rule.Charge, 0, 3, 6, 0)
		do(rule.GiveBack, 0, 3, 3, 0)
		inner.fail(errDown)
		do(rule.Take, rule.FallbackLocal, 3, 3, 3)
		do(rule.Charge, rule.FallbackLocal, 3, 3, 6)
		k.Cost = 2
		do(rule.GiveBack, rule.FallbackLocal, 2, 3, 4)
		expect(t, st, failure.Stats{Fallbacks: by(store.FailLocal, 3), Failures: 1, Outages: 1, Down: true})
		if _, err := apply(t, st, rule.Reset, k); !errors.Is(err, errDown) || used(t, memory, "k") != 0 || used(t, inner.Store, "k") != 3 {
			t.Errorf("a reset in the outage: %v", err)
		}
		do(rule.Take, rule.FallbackLocal, 2, 3, 2)
		expect(t, st, failure.Stats{Fallbacks: by(store.FailLocal, 4), Undecided: 1, Failures: 1, Outages: 1, Down: true})
		inner.heal()
		testkit.Pass(time.Second)
		do(rule.Reset, 0, 0, 0, 0)
	})
}

// Each request of a batch gets its own answer, in its position, and the first error is returned.
func TestBatch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		inner, memory := newRemote(t), newMemory(t)
		st := newStore(t, inner, store.FailLocal, failure.Options{Local: memory})
		limit := bind(t, ten)
		charge := func(key string, at rule.Micros) store.Charge {
			return store.Charge{Limit: limit, Key: key, Cost: 2, At: at}
		}
		taken, err := apply(t, memory, rule.Take, charge("there", 0))
		if err != nil {
			t.Fatal(err)
		}
		inner.do(func(ctx context.Context, batch []store.Request) (first error) {
			for i := range batch {
				switch r := &batch[i]; r.Charges[0].Key {
				case "fails":
					r.Err = errOne
				case "wrong":
					r.Err = slidegate.ErrCost
				default:
					_ = inner.Store.Apply(ctx, batch[i:i+1])
				}
				if first == nil {
					first = batch[i].Err
				}
			}
			return first
		})
		batch := []store.Request{
			request(rule.Take, charge("plain", 0)),
			request(rule.GiveBack, charge("there", answering.Mark(taken.At, st.Mark()))),
			request(rule.Take, charge("fails", 0)),
			request(rule.Take, charge("there", 0)),
			request(rule.Take, charge("wrong", 0)),
			request(rule.GiveBack, charge("there", answering.Mark(taken.At, st.Mark())), charge("plain", taken.At)),
			request(rule.GiveBack, charge("fails", taken.At)),
			request(rule.Reset, charge("plain", 0)),
			request(rule.Take, charge("plain", 0)),
		}
		for i := range batch {
			batch[i].Err = errors.New("left over")
		}
		const fallback = rule.FallbackLocal
		want := []struct {
			err     error
			flags   rule.Flags
			granted int64
		}{
			{nil, 0, 2}, {nil, fallback, 2}, {nil, fallback, 2}, {nil, 0, 2}, {slidegate.ErrCost, 0, 0}, {store.ErrUnsupported, 0, 0},
			{errOne, 0, 0}, {nil, 0, 0}, {nil, 0, 2},
		}
		if err := st.Apply(t.Context(), batch); err != slidegate.ErrCost {
			t.Errorf("got first error %v", err)
		}
		for i, w := range want {
			if r := &batch[i]; !errors.Is(r.Err, w.err) || r.Err == nil && (r.Answers[0].Flags != w.flags || r.Answers[0].Granted != w.granted) {
				t.Errorf("request %d: got %+v, %v, want flags %v, Granted %d, error %v", i, r.Answers, r.Err, w.flags, w.granted, w.err)
			}
		}
		if n := inner.callsSinceCheck(); n != 1 {
			t.Errorf("got %d calls", n)
		}
		if s, f, p := used(t, inner.Store, "there"), used(t, memory, "there"), used(t, inner.Store, "plain"); s != 2 || f != 0 || p != 2 {
			t.Errorf("got %d, %d and %d used", s, f, p)
		}
		expect(t, st, failure.Stats{Fallbacks: by(store.FailLocal, 1), Undecided: 1, Failures: 2}) // some were answered: the breaker stays closed
	})
}

// If a store returns an error but does not report which request failed, none of its answers is trusted.
func TestBatchWithoutErrs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		inner := newRemote(t)
		st := newStore(t, inner, store.FailLocal, failure.Options{Local: newMemory(t)})
		const fallback = rule.FallbackLocal
		charge := func(key string, at rule.Micros) store.Charge {
			return store.Charge{Limit: bind(t, ten), Key: key, Cost: 2, At: at}
		}
		inner.do(func(context.Context, []store.Request) error { return errDown })
		batch := []store.Request{request(rule.Take, charge("plain", 0)), request(rule.Peek, charge("plain", 0))}
		if err := st.Apply(t.Context(), batch); err != nil || batch[0].Answers[0].Flags != fallback || batch[1].Answers[0].Flags != fallback {
			t.Errorf("got %+v, %v, want both answered by the fallback", batch, err)
		}
		if !st.Stats().Down {
			t.Error("a call without any answer did not count as a failure")
		}
		// During the outage, in order.
		batch = []store.Request{
			request(rule.Take, charge("new", 0)), request(rule.GiveBack, charge("new", 0)), request(rule.Peek, charge("new", 0)),
		}
		if err := st.Apply(t.Context(), batch); err != nil || batch[0].Answers[0].Remaining != 8 || batch[1].Answers[0].Granted != 2 ||
			batch[2].Answers[0].Remaining != 10 || inner.callsSinceCheck() != 1 {
			t.Errorf("got %+v, %v, %d calls to the store, want 8 left, 2 granted, 10 left, and 1", batch, err, inner.callsSinceCheck())
		}
	})
}

// A batch that ran into the deadline says nothing against a store that answered part of it.
func TestBatchOutOfTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		inner := newRemote(t)
		st := newStore(t, inner, store.FailOpen, failure.Options{})
		inner.do(func(ctx context.Context, batch []store.Request) error {
			_ = inner.Store.Apply(ctx, batch[:1])
			<-ctx.Done()
			return batches.FailAll(batch[1:], ctx.Err())
		})
		charge := store.Charge{Limit: bind(t, ten), Key: "k", Cost: 1}
		batch := []store.Request{request(rule.Take, charge), request(rule.Take, charge)}
		if err := st.Apply(t.Context(), batch); err != nil || batch[0].Answers[0].Flags != 0 || batch[1].Answers[0].Flags != rule.FallbackLocal {
			t.Errorf("got %+v, %v, want the first of the store and the second of Local", batch, err)
		}
		expect(t, st, failure.Stats{Fallbacks: by(store.FailLocal, 1), Failures: 1, Late: 1})
	})
}

// Invalid requests are errors, not panics.
func TestImpossibleRequests(t *testing.T) {
	for mode := range modes {
		inner := newRemote(t)
		inner.fail(errDown)
		st := newStore(t, inner, mode, failure.Options{})
		charges := []store.Charge{{Limit: bind(t, ten), Key: "k", Cost: 1}}
		back := []store.Charge{{Limit: bind(t, ten), Key: "k", Cost: 1, At: -5}}
		for i, r := range []store.Request{
			{Op: rule.Take}, {Op: rule.Take, Charges: charges}, {Op: rule.GiveBack, Charges: back},
			{Op: rule.Reset, Answers: make([]rule.Answer, 1)}, {Op: rule.Peek},
		} {
			if err := st.Apply(t.Context(), []store.Request{r}); !errors.Is(err, store.ErrUnsupported) {
				t.Errorf("%v, request %d: %v", mode, i, err)
			}
		}
		if err := st.Apply(t.Context(), nil); err != nil {
			t.Error(err)
		}
		unknown := store.Request{Op: 99, Charges: charges, Answers: make([]rule.Answer, 1)}
		if err := st.Apply(t.Context(), []store.Request{unknown}); !errors.Is(err, errDown) {
			t.Errorf("%v, an unknown operation: %v", mode, err)
		}
	}
}
