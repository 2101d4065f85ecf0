package failure_test

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/slidegate/slidegate/internal/layer/failure"
	"github.com/slidegate/slidegate/internal/testkit"
	"github.com/slidegate/slidegate/rule"
	"github.com/slidegate/slidegate/store"
)

// booking is a reservation of three units and a slot, as stores see it.
type booking struct {
	t       *testing.T
	id      rule.ID
	charges []store.Charge
}

func newBooking(t *testing.T, id rule.ID) *booking {
	slots := testkit.Must(rule.Limit{Algorithm: rule.InFlight, Quota: 5, Window: 60_000_000}.Normalize())(t)
	log := testkit.Must(rule.Limit{Algorithm: rule.SlidingLog, Quota: 10, Window: 3600_000_000}.Normalize())(t)
	return &booking{t: t, id: id, charges: []store.Charge{
		{Limit: store.Bind("", "log", "log", log), Key: "k", Cost: 3}, {Limit: store.Bind("", "slots", "slots", slots), Key: "k", Cost: 1},
	}}
}

// do carries out an operation of the reservation. Take records when its units were taken.
func (b *booking) do(st store.Store, op rule.Op) ([]rule.Answer, error) {
	b.t.Helper()
	r := store.Request{Op: op, ID: b.id, Charges: b.charges, Answers: make([]rule.Answer, len(b.charges))}
	err := st.Apply(b.t.Context(), []store.Request{r})
	if op == rule.Take && err == nil {
		for i := range b.charges {
			b.charges[i].At = r.Answers[i].At
		}
	}
	return r.Answers, err
}

// used returns how many units and slots are in use in a store.
func (b *booking) used(st store.Store) [2]int64 {
	b.t.Helper()
	looks := []store.Charge{b.charges[0], b.charges[1]}
	looks[0].Cost, looks[1].Cost = 0, 0
	look := store.Request{Op: rule.Peek, Charges: looks, Answers: make([]rule.Answer, 2)}
	if err := st.Apply(b.t.Context(), []store.Request{look}); err != nil {
		b.t.Fatal(err)
	}
	return [2]int64{10 - look.Answers[0].Remaining, 5 - look.Answers[1].Remaining}
}

// What the store took is settled and renewed only by the store, and what the fallback took only by the fallback: during
// the outage and after it, each once.
func TestReservationsOfTheStoreAndOfTheFallback(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		inner, memory := newRemote(t), newMemory(t)
		st := newStore(t, inner, store.FailLocal, failure.Options{Local: memory})
		ofStore, ofFallback, second := newBooking(t, 1), newBooking(t, 2), newBooking(t, 3)
		want := func(when string, atStore, atFallback [2]int64) {
			t.Helper()
			if s, f := ofStore.used(inner.Store), ofStore.used(memory); s != atStore || f != atFallback {
				t.Errorf("%s: %v in the store and %v in the fallback, want %v and %v", when, s, f, atStore, atFallback)
			}
		}
		done := func(b *booking, op rule.Op, flags rule.Flags, granted int64) {
			t.Helper()
			a, err := b.do(st, op)
			if err != nil || !a[1].Allowed || a[0].Flags != flags || a[0].Granted != granted {
				t.Errorf("%v of reservation %d: %+v, %v, want flags %v and %d granted", op, b.id, a, err, flags, granted)
			}
		}
		unknown := func(b *booking, op rule.Op) {
			t.Helper()
			if _, err := b.do(st, op); !errors.Is(err, failure.ErrUnavailable) {
				t.Errorf("%v of what the store took, in an outage: %v", op, err)
			}
		}
		done(ofStore, rule.Take, 0, 3)
		inner.fail(errDown)
		done(ofFallback, rule.Take, rule.FallbackLocal, 3)
		done(second, rule.Take, rule.FallbackLocal, 3)
		want("all taken", [2]int64{3, 1}, [2]int64{6, 2})
		unknown(ofStore, rule.Renew)
		unknown(ofStore, rule.Settle)
		done(ofFallback, rule.Renew, rule.FallbackLocal, 0)
		ofFallback.charges[0].Used = 1
		done(ofFallback, rule.Settle, rule.FallbackLocal, 2)
		done(ofFallback, rule.Settle, rule.FallbackLocal|rule.Repeated, 2)
		want("settled in the outage", [2]int64{3, 1}, [2]int64{4, 1})
		inner.heal()
		testkit.Pass(time.Second)
		ofStore.used(st) // a probe
		done(second, rule.Renew, rule.FallbackLocal, 0)
		done(second, rule.Settle, rule.FallbackLocal, 3)
		want("settled after the outage", [2]int64{3, 1}, [2]int64{1, 0})
		done(ofStore, rule.Renew, 0, 0)
		done(ofStore, rule.Settle, 0, 3)
		done(ofStore, rule.Settle, rule.Repeated, 3)
		want("the store's settled", [2]int64{0, 0}, [2]int64{1, 0})
	})
}

// A fallback in this process holds slots as the store would: no more than the limit, each until it is released or its
// time to live has passed.
func TestSlotsOfTheFallback(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		inner, memory := newRemote(t), newMemory(t)
		inner.fail(errDown)
		st := newStore(t, inner, store.FailLocal, failure.Options{Local: memory})
		take := func(id rule.ID) bool {
			b := newBooking(t, id)
			b.charges = b.charges[1:]
			a, err := b.do(st, rule.Take)
			if err != nil {
				t.Fatal(err)
			}
			return a[0].Allowed
		}
		for id := range rule.ID(5) {
			if !take(id + 1) {
				t.Errorf("slot %d of 5 was refused", id+1)
			}
		}
		if take(6) {
			t.Error("got a sixth slot of 5")
		}
		testkit.Pass(time.Minute)
		if !take(7) {
			t.Error("no slot is free after the time to live")
		}
	})
}

// What FailOpen admitted in an outage was taken nowhere: there is nothing to settle, and no slot that could be lost.
func TestOpenHoldsNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		inner := newRemote(t)
		st := newStore(t, inner, store.FailOpen, failure.Options{})
		inner.fail(errDown)
		b := newBooking(t, 1)
		if a, err := b.do(st, rule.Take); err != nil || !a[1].Allowed || a[1].Flags != rule.FallbackOpen {
			t.Fatalf("taken in the outage: got %+v, %v, want allowed, the flag FallbackOpen", a, err)
		}
		for range 2 { // during the outage, and after it
			for _, op := range []rule.Op{rule.Renew, rule.Settle, rule.Settle} {
				inner.callsSinceCheck()
				if a, err := b.do(st, op); err != nil || !a[1].Allowed || a[0].Granted != 0 || a[1].Granted != 0 || a[1].Flags&rule.FallbackLocal == 0 {
					t.Errorf("%v: got %+v, %v, want allowed, nothing granted", op, a, err)
				}
				if inner.callsSinceCheck() != 0 {
					t.Errorf("%v: the store was called about units that it never gave", op)
				}
			}
			inner.heal()
			testkit.Pass(time.Second)
			if got := b.used(st); got != [2]int64{} {
				t.Errorf("got %v used in the store", got)
			}
		}
	})
}

// Reservations of the store and of the fallback cannot be settled in one request.
func TestMixedReservation(t *testing.T) {
	st := newStore(t, newRemote(t), store.FailLocal, failure.Options{Local: newMemory(t)})
	b := newBooking(t, 1)
	b.charges[0].At, b.charges[1].At = 5, -5
	for _, op := range []rule.Op{rule.Settle, rule.Renew} {
		if _, err := b.do(st, op); !errors.Is(err, store.ErrUnsupported) {
			t.Errorf("%v: %v", op, err)
		}
	}
}
