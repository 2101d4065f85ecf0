package failure_test

import (
	"context"
	"errors"
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

// What one process took without the store, another one neither returns nor settles nor renews, whatever it has taken itself for
// the same key: it says where to go, during the outage and after it.
func TestTakenByAnotherProcess(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		inner := newRemote(t)
		one, other := newStore(t, inner, store.FailLocal, failure.Options{}), newStore(t, inner, store.FailLocal, failure.Options{})
		for one.Mark() == other.Mark() { // one pair in 1,023
			other = newStore(t, inner, store.FailLocal, failure.Options{})
		}
		inner.fail(errDown)
		mine, theirs := newBooking(t, 1), newBooking(t, 2)
		for b, st := range map[*booking]*failure.Store{mine: one, theirs: other} {
			if a, err := b.do(st, rule.Take); err != nil || !a[0].Allowed {
				t.Fatalf("got %+v, %v, want it taken", a, err)
			}
		}
		for range 2 {
			before := mine.used(other)
			for _, op := range []rule.Op{rule.Renew, rule.Settle, rule.GiveBack} {
				mine.charges[0].Used = 8
				if _, err := mine.do(other, op); !errors.Is(err, failure.ErrElsewhere) || !errors.Is(err, slidegate.ErrReservation) || errors.Is(err, failure.ErrUnavailable) {
					t.Errorf("%v: got %v, want ErrElsewhere", op, err)
				}
			}
			if after := mine.used(other); after != before {
				t.Errorf("got %v used in the other process, want %v", after, before)
			}
			inner.heal()
			testkit.Pass(5 * time.Second)
		}
		mine.charges[0].Used = 0
		for _, op := range []rule.Op{rule.Renew, rule.Settle} {
			if a, err := mine.do(one, op); err != nil || !a[1].Allowed {
				t.Errorf("%v in its own process: got %+v, %v", op, a, err)
			}
		}
	})
}

// What was admitted by FailOpen was counted nowhere: however it is ended, and wherever, nothing is freed or charged, and what
// Local counts of the same key stays.
func TestUncountedFreesNothing(t *testing.T) {
	for _, algorithm := range []rule.Algorithm{slidegate.FixedWindow, slidegate.TokenBucket, slidegate.SlidingWindow, slidegate.SlidingLog} {
		for _, op := range []rule.Op{rule.Settle, rule.GiveBack} {
			synctest.Test(t, func(t *testing.T) {
				inner, memory, late := newRemote(t), newMemory(t), true
				st := newStore(t, inner, store.FailOpen, failure.Options{Local: memory})
				c := store.Charge{Limit: bind(t, slidegate.Limit{Quota: 10, Window: time.Hour, Algorithm: algorithm}), Key: "k", Cost: 8}
				left := func() int64 {
					a, err := apply(t, memory, rule.Peek, store.Charge{Limit: c.Limit, Key: "k"})
					if err != nil {
						t.Fatal(err)
					}
					return a.Remaining
				}
				inner.do(func(ctx context.Context, batch []store.Request) error {
					if isProbe(batch) && late {
						return inner.Store.Apply(ctx, batch)
					}
					<-ctx.Done()
					return batches.FailAll(batch, ctx.Err())
				})
				if a, err := apply(t, st, rule.Take, c); err != nil || a.Flags != rule.FallbackLocal || left() != 2 {
					t.Fatalf("late: got %+v, %v, want it counted in Local", a, err)
				}
				late = false
				inner.fail(errDown)
				testkit.Pass(2 * time.Second)
				if _, err := apply(t, st, rule.Take, store.Charge{Limit: c.Limit, Key: "other", Cost: 1}); err != nil {
					t.Fatal(err)
				}
				open, err := apply(t, st, rule.Take, c)
				if err != nil || open.Flags != rule.FallbackOpen {
					t.Fatalf("out: got %+v, %v, want it admitted", open, err)
				}
				for i, used := range []int64{0, 10} {
					for _, layer := range []*failure.Store{st, newStore(t, inner, store.FailLocal, failure.Options{Local: memory})} {
						r := request(op, c)
						r.ID, r.Charges[0].At, r.Charges[0].Used = 7, open.At, used
						err := layer.Apply(t.Context(), []store.Request{r})
						if a := r.Answers[0]; err != nil || a.Granted != 0 || a.At >= 0 || left() != 2 || op == rule.Settle && i > 0 && a.Flags&rule.Repeated == 0 {
							t.Errorf("%v, %v of %v: got %+v, %v, and %d left in Local, want no effect", algorithm, op, used, a, err, left())
						}
					}
				}
			})
		}
	}
}

// panicking is a store that panics in TakeSingle for one key.
type panicking struct{ *remote }

func (p panicking) TakeSingle(ctx context.Context, limit *store.Limit, key string, cost int64) (
	allowed bool, flags rule.Flags, remaining int64, after, resetAfter, at rule.Micros, err error,
) {
	if key == "bad" {
		panic("a mistake")
	}
	return store.Single(p.remote).TakeSingle(ctx, limit, key, cost)
}

// A call that panics waits no longer.
func TestPanicsDoNotWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st := newStore(t, panicking{newRemote(t)}, store.FailLocal, failure.Options{MaxWaiting: 2})
		c := store.Charge{Limit: bind(t, ten), Key: "bad", Cost: 1}
		panicked := 0
		for range 5 {
			func() {
				defer func() {
					if recover() != nil {
						panicked++
					}
				}()
				_, _ = ways["TakeSingle"](t.Context(), st, c)
			}()
		}
		c.Key = "good"
		if a, err := ways["TakeSingle"](t.Context(), st, c); err != nil || a.Flags != 0 || panicked != 5 {
			t.Errorf("after %d panics: got %+v, %v, want an answer of the store", panicked, a, err)
		}
	})
}

// A layer that is closed while its store is out does not ask callers to come back at once.
func TestRetryAfterClose(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		inner := newRemote(t)
		st := newStore(t, inner, store.FailClosed, failure.Options{ProbeEvery: 3 * time.Second})
		inner.fail(errDown)
		c := store.Charge{Limit: bind(t, ten), Key: "k", Cost: 1}
		if _, err := apply(t, st, rule.Take, c); err != nil {
			t.Fatal(err)
		}
		st.Close()
		testkit.Pass(time.Minute)
		if a, err := apply(t, st, rule.Take, c); err != nil || a.RetryAfter.Duration() != 3*time.Second {
			t.Errorf("got %+v, %v, want a refusal for 3s", a, err)
		}
	})
}
