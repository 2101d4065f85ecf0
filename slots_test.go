package slidegate_test

import (
	"context"
	"encoding/json"
	"errors"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/slidegate/slidegate"
	"github.com/slidegate/slidegate/rule"
	"github.com/slidegate/slidegate/store"
	"github.com/slidegate/slidegate/storetest"
)

// acquire takes a slot, which must be free.
func acquire(t testing.TB, limiter *slidegate.Limiter, key string) slidegate.Reservation {
	t.Helper()
	r, d, err := limiter.Acquire(t.Context(), key)
	if err != nil || !d.Allowed {
		t.Fatalf("got no slot: %+v, %v", d, err)
	}
	return r
}

// checkFull checks that no slot is free, and returns when one will be.
func checkFull(t testing.TB, limiter *slidegate.Limiter, key string) time.Duration {
	t.Helper()
	r, d, err := limiter.Acquire(t.Context(), key)
	if err != nil || d.Allowed || !reflect.DeepEqual(r, slidegate.Reservation{}) {
		t.Fatalf("got %+v, %+v, %v, want a refusal and no reservation", r, d, err)
	}
	return d.RetryAfter
}

func advance(clock *storetest.Clock, d time.Duration) { clock.Advance(rule.Micros(d.Microseconds())) }

func TestSlots(t *testing.T) {
	overStores(t, func(t *testing.T, st store.Store, clock *storetest.Clock) {
		limiter := newLimiter(t, st, slidegate.Slots(2, 30*time.Second))
		first := acquire(t, limiter, "k")
		advance(clock, 10*time.Second)
		second := acquire(t, limiter, "k")
		if wait := checkFull(t, limiter, "k"); wait != 20*time.Second {
			t.Errorf("a slot is free in %v, want the 20s that the first has left", wait)
		}
		acquire(t, limiter, "other")

		// A slot is released once, however often Release is called.
		for i := range 3 {
			done, err := limiter.Release(t.Context(), first)
			if want := []int64{max(0, 1-int64(i))}; err != nil || !reflect.DeepEqual(done.Returned, want) {
				t.Errorf("released %+v, %v, want %v", done, err, want)
			}
		}
		third := acquire(t, limiter, "k")
		checkFull(t, limiter, "k")

		// A renewed slot is kept; one that is not renewed is lost when its time has passed.
		advance(clock, 25*time.Second)
		for range 2 {
			if d, err := limiter.Renew(t.Context(), second); err != nil || !d.Allowed {
				t.Fatalf("not renewed: got %+v, %v, want allowed", d, err)
			}
		}
		advance(clock, 6*time.Second)
		if d, err := limiter.Renew(t.Context(), third); err != nil || d.Allowed {
			t.Errorf("a slot was renewed a second too late: got %+v, %v, want refused", d, err)
		}
		acquire(t, limiter, "k")
		if _, err := limiter.Release(t.Context(), third); err != nil {
			t.Error(err)
		}
		if wait := checkFull(t, limiter, "k"); wait != 24*time.Second {
			t.Errorf("releasing a lost slot freed another one: %v", wait)
		}
	})
}

// A slot, a request and 700 tokens are taken together or not at all, and each is returned in its own way.
func TestSlotsTogetherWithRates(t *testing.T) {
	slots, requests, tokens := slidegate.Slots(2, time.Minute), exact("requests", 3, time.Minute), exact("tokens", 2300, time.Hour)
	overStores(t, func(t *testing.T, st store.Store, _ *storetest.Clock) {
		limiter := newPerCall(t, st)
		claims := limiter.For(claim(slots, "k", 1), claim(requests, "k", 1), claim(tokens, "k", 700))
		take := func(want string) slidegate.Reservation {
			t.Helper()
			r, d, err := claims.Reserve(t.Context())
			if err != nil || d.Allowed != (want == "") || !d.Allowed && d.LimitName != want {
				t.Fatalf("got %+v, %v, want a refusal by %q", d, err, want)
			}
			return r
		}
		check := func(what string, held, started, spent int64) {
			t.Helper()
			got := [3]int64{usedOf(t, limiter, slots, "k"), usedOf(t, limiter, requests, "k"), usedOf(t, limiter, tokens, "k")}
			if got != [3]int64{held, started, spent} {
				t.Fatalf("%s: used %v, want %d slots, %d requests and %d tokens", what, got, held, started, spent)
			}
		}
		first, second := take(""), take("")
		check("both", 2, 2, 1400)
		take("2 in-flight ttl=1m")
		check("refused by the slots", 2, 2, 1400)
		done, err := limiter.Settle(t.Context(), first, slidegate.Used{Limit: "tokens", Cost: 1000})
		if err != nil || !reflect.DeepEqual(done, slidegate.Settlement{Returned: []int64{1, 0, -300}}) {
			t.Fatalf("settled %+v, %v", done, err)
		}
		check("settled", 1, 2, 1700)
		take("tokens")
		check("refused by the tokens", 1, 2, 1700)
		if _, err := limiter.Release(t.Context(), second); err != nil {
			t.Fatal(err)
		}
		check("released", 0, 2, 1700)
		if done, err := limiter.Cancel(t.Context(), second); err != nil || !done.Repeated {
			t.Fatalf("cancelled after the release: %+v, %v", done, err)
		}
		check("and not cancelled as well", 0, 2, 1700)
	})
}

// Of a limiter's own limits, Reserve takes the given number of units and one slot.
func TestReserveTakesOneSlot(t *testing.T) {
	overStores(t, func(t *testing.T, st store.Store, _ *storetest.Clock) {
		limiter := newLimiter(t, st, exact("tokens", 1000, time.Minute), slidegate.Slots(2, time.Minute))
		for _, n := range []int64{700, 0} {
			peek, err := limiter.Peek(t.Context(), "k", n)
			if err != nil || !peek.Allowed {
				t.Fatalf("a peek at %d: got %+v, %v, want allowed", n, peek, err)
			}
			r, d, err := limiter.Reserve(t.Context(), "k", n)
			if err != nil || !d.Allowed || r.Charges[0].Cost != n || r.Charges[1].Cost != 1 {
				t.Fatalf("reserved %+v, %+v, %v, want %d units and a slot", r, d, err, n)
			}
		}
		d, err := limiter.Peek(t.Context(), "k", 300)
		if err != nil || d.Allowed || d.LimitName != "2 in-flight ttl=1m" {
			t.Errorf("a peek at 300 with no slot: %+v, %v", d, err)
		}
		// A Refund returns units: the requests that hold the slots are still running.
		if d, err = limiter.Refund(t.Context(), "k", 2); err != nil || d.Answers[1].Remaining != 0 || d.Answers[0].Remaining != 302 {
			t.Errorf("after a refund of 2: %+v, %v, want no slot and 302 units left", d, err)
		}
		claims := limiter.For(slidegate.Claim{Limit: exact("tokens", 1000, time.Minute), Key: "k"}, slidegate.Claim{Limit: slidegate.Slots(2, time.Minute), Key: "k"})
		if d, err = claims.Refund(t.Context()); err != nil || d.Answers[1].Remaining != 0 || d.Answers[0].Remaining != 303 {
			t.Errorf("after a refund of two claims: %+v, %v, want no slot and 303 units left", d, err)
		}
		// With in-flight limits only, Refund is for administrators, and frees the least recently renewed slots first.
		only, err := limiter.With(slidegate.Slots(2, time.Minute))
		if err != nil {
			t.Fatal(err)
		}
		if d, err = only.Refund(t.Context(), "k", 2); err != nil || d.Remaining != 2 {
			t.Errorf("after a refund of 2 slots: %+v, %v, want 2 left", d, err)
		}
		acquire(t, limiter, "k")
		if err := limiter.Reset(t.Context(), "k"); err != nil {
			t.Fatal(err)
		}
		if d, err = limiter.Peek(t.Context(), "k", 1); err != nil || d.Answers[1].Remaining != 2 {
			t.Errorf("after a reset: got %+v, %v, want Remaining 2", d, err)
		}
	})
}

// Only methods that return a reservation take a slot. All others return an error that says what to use, and take nothing of
// the other limits.
func TestSlotsNeedAReservation(t *testing.T) {
	slots, rate := slidegate.Slots(2, time.Minute), slidegate.Limit{Name: "rate", Quota: 5, Window: time.Minute, CountRefused: true}
	unfit := map[string]bool{}
	for _, name := range []string{"Allow", "AllowN", "AllowInto", "AllowUpTo", "Wait", "Charge"} {
		unfit[name], unfit["For."+name] = true, true
	}
	overStores(t, func(t *testing.T, st store.Store, _ *storetest.Clock) {
		for _, limiter := range []*slidegate.Limiter{
			newLimiter(t, st, slots), newLimiter(t, batchOnly{st}, slots), newLimiter(t, st, rate, slots),
		} {
			verbs := append(keyVerbs(), claimVerbs(slots)...)
			verbs = append(verbs, claimVerbs(rate, slots)...)
			for _, verb := range verbs {
				d, err := verb.call(t.Context(), limiter, verb.name, 1)
				switch {
				case !unfit[verb.name]:
					if err != nil {
						t.Errorf("%s: %v", verb.name, err)
					}
				case !errors.Is(err, slidegate.ErrUnsupported) || !strings.Contains(err.Error(), "Acquire") ||
					strings.Contains(err.Error(), "this store") || !reflect.DeepEqual(d, decision{}):
					t.Errorf("%s: got %+v, %v, want ErrUnsupported that says to use Acquire, and does not blame the store", verb.name, d, err)
				case used(t, limiter, verb.name) != 0:
					t.Errorf("%s: returned an error, but units are used", verb.name)
				}
			}
		}
	})
}

// Waiting for a slot is rejected immediately, not only once the other limits have units left.
func TestWaitRejectsSlots(t *testing.T) {
	rate := slidegate.Limit{Name: "rate", Quota: 5, Window: time.Minute, CountRefused: true}
	limiter := newLimiter(t, newReference(), rate, slidegate.Slots(2, time.Minute))
	if _, err := limiter.For(claim(rate, "k", 5)).Allow(t.Context()); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	if err := limiter.Wait(ctx, "k", 1); !errors.Is(err, slidegate.ErrUnsupported) {
		t.Errorf("got %v, want ErrUnsupported", err)
	}
}

func TestSlotErrors(t *testing.T) {
	slots := slidegate.Slots(5, time.Minute)
	limiter := newPerCall(t, newReference())
	for name, claims := range map[string]slidegate.Claims{
		"two slots": limiter.For(claim(slots, "k", 2)),
		"two times": limiter.For(claim(slots, "k", 1), claim(slots, "k", 1)),
	} {
		if _, _, err := claims.Reserve(t.Context()); !errors.Is(err, slidegate.ErrCost) || !strings.Contains(err.Error(), "one slot") {
			t.Errorf("%s: %v, want ErrCost", name, err)
		}
	}
	rate, _, err := limiter.For(claim(slidegate.PerMinute(5), "k", 1)).Reserve(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for name, r := range map[string]slidegate.Reservation{"no charges": {}, "no slots": rate} {
		if _, err := limiter.Renew(t.Context(), r); !errors.Is(err, slidegate.ErrReservation) {
			t.Errorf("renewed with %s: %v, want ErrReservation", name, err)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	held, _, err := limiter.For(claim(slots, "k", 1)).Reserve(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := limiter.Renew(ctx, held); !errors.Is(err, context.Canceled) {
		t.Errorf("renewed for a caller that has gone: %v", err)
	}
	if done, err := limiter.Release(ctx, held); err != nil || done.Returned[0] != 1 {
		t.Errorf("not released for a caller that has gone: %+v, %v", done, err)
	}
}

// A slot is released by the process that finishes the work, which need not be the one that took it.
func TestSlotIsReleasedByAnotherProcess(t *testing.T) {
	overStores(t, func(t *testing.T, st store.Store, clock *storetest.Clock) {
		limiter := newLimiter(t, st, slidegate.Slots(1, time.Minute))
		encoded, err := json.Marshal(acquire(t, limiter, "k"))
		if err != nil {
			t.Fatal(err)
		}
		var r slidegate.Reservation
		if err := json.Unmarshal(encoded, &r); err != nil {
			t.Fatal(err)
		}
		elsewhere := newPerCall(t, st)
		advance(clock, 50*time.Second)
		if d, err := elsewhere.Renew(t.Context(), r); err != nil || !d.Allowed {
			t.Errorf("renewed elsewhere: got %+v, %v, want allowed", d, err)
		}
		advance(clock, 50*time.Second)
		checkFull(t, limiter, "k")
		if done, err := elsewhere.Release(t.Context(), r); err != nil || done.Returned[0] != 1 {
			t.Errorf("released elsewhere: %+v, %v", done, err)
		}
		acquire(t, limiter, "k")
	})
}
