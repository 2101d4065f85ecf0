package slidegate_test

import (
	"context"
	"encoding/json"
	"errors"
	"math"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/slidegate/slidegate"
	"github.com/slidegate/slidegate/memstore"
	"github.com/slidegate/slidegate/rule"
	"github.com/slidegate/slidegate/store"
)

func TestInvalidCosts(t *testing.T) {
	limit := slidegate.PerMinute(10)
	for _, store := range []store.Store{newReference(), batchOnly{newReference()}} {
		limiter := newLimiter(t, store, limit)
		for _, verb := range append(keyVerbs(), claimVerbs(limit)...) {
			if verb.free {
				continue
			}
			for _, cost := range []int64{-1, math.MinInt64, rule.MaxQuota + 1, math.MaxInt64} {
				d, err := verb.call(t.Context(), limiter, "k", cost)
				if !errors.Is(err, slidegate.ErrCost) || !reflect.DeepEqual(d, slidegate.Decision{}) {
					t.Errorf("%s of %d: got %+v, %v, want no decision, and ErrCost", verb.name, cost, d, err)
				}
			}
		}
		if n := used(t, limiter, "k"); n != 0 {
			t.Errorf("charged %d for invalid costs, want 0", n)
		}
	}
}

func TestNoLimitsIsAnError(t *testing.T) {
	limiter := newPerCall(t, newReference())
	if limits := limiter.Limits(); len(limits) != 0 {
		t.Errorf("got the limits %v, want none", limits)
	}
	for _, verb := range append(keyVerbs(), claimVerbs()...) {
		if d, err := verb.call(t.Context(), limiter, "k", 1); !errors.Is(err, slidegate.ErrLimit) || d.Allowed {
			t.Errorf("%s: got %+v, %v, want ErrLimit", verb.name, d, err)
		}
	}
	for _, verb := range claimVerbs(slidegate.PerMinute(10)) {
		if _, err := verb.call(t.Context(), limiter, "k", 1); err != nil {
			t.Errorf("%s, with a limit: %v", verb.name, err)
		}
	}
}

// When the store fails, the outcome is unknown: every method returns the error, and no decision.
func TestStoreFails(t *testing.T) {
	down := errors.New("the store is down")
	good := newReference()
	limits := []slidegate.Limit{slidegate.PerMinute(10), slidegate.PerHour(100)}
	reservation, _, err := newLimiter(t, good, limits...).Reserve(t.Context(), "k", 5)
	if err != nil {
		t.Fatal(err)
	}
	settle := func(costs ...int64) func(context.Context, *slidegate.Limiter, string, int64) (decision, error) {
		return func(ctx context.Context, l *slidegate.Limiter, _ string, _ int64) (decision, error) {
			return decision{}, trySettle(ctx, l, reservation, costs...)
		}
	}
	verbs := append(keyVerbs(), claimVerbs(limits...)...)
	verbs = append(verbs, claimVerbs(limits[0])...)
	held, _, err := newLimiter(t, good, slidegate.Slots(1, time.Minute)).Acquire(t.Context(), "k")
	if err != nil {
		t.Fatal(err)
	}
	verbs = append(verbs, verb{name: "Renew", call: func(ctx context.Context, l *slidegate.Limiter, _ string, _ int64) (decision, error) {
		return l.Renew(ctx, held)
	}}, verb{name: "Release", call: func(ctx context.Context, l *slidegate.Limiter, _ string, _ int64) (decision, error) {
		return decision{}, errOf(l.Release(ctx, held))
	}})
	verbs = append(verbs, verb{name: "Settle down", call: settle(2)}, verb{name: "Settle up", call: settle(7)},
		verb{name: "Settle both ways", call: settle(2, 7)}, verb{name: "Cancel", call: settle(0)})
	bad := brokenStore{good, down}
	for _, limiter := range []*slidegate.Limiter{
		newLimiter(t, bad, limits[0]), newLimiter(t, batchOnly{bad}, limits[0]), newLimiter(t, bad, limits...),
	} {
		for _, verb := range verbs {
			d, err := verb.call(t.Context(), limiter, "k", 1)
			if !errors.Is(err, down) || !reflect.DeepEqual(d, slidegate.Decision{}) {
				t.Errorf("%s: got %+v, %v, want no decision and the store's error", verb.name, d, err)
			}
		}
		if r, _, _ := limiter.Reserve(t.Context(), "k", 1); !reflect.DeepEqual(r, slidegate.Reservation{}) {
			t.Errorf("got the reservation %+v from a store that is down, want none", r)
		}
	}
}

// Requests with more charges than the store can decide atomically are rejected, not split.
func TestTooManyClaims(t *testing.T) {
	limiter := newPerCall(t, singleCharge{newReference()})
	minute, hour := slidegate.PerMinute(10), slidegate.PerHour(100)
	for _, verb := range claimVerbs(minute, hour) {
		if _, err := verb.call(t.Context(), limiter, "k", 1); !errors.Is(err, store.ErrUnsupported) {
			t.Errorf("%s: %v, want ErrUnsupported", verb.name, err)
		}
	}
	for _, verb := range claimVerbs(minute, minute) { // two claims on one address are one charge
		if _, err := verb.call(t.Context(), limiter, "k", 1); err != nil {
			t.Errorf("%s: got the error %v, want none", verb.name, err)
		}
	}
}

// Keys are often secrets: tokens, addresses, names. Errors end up in logs.
const secret = "sk-live-Hunter2"

func checkNoKey(t *testing.T, what string, err error) {
	t.Helper()
	if err == nil {
		t.Errorf("%s: got no error", what)
	} else if strings.Contains(err.Error(), "Hunter2") {
		t.Errorf("%s: the error contains the key: %v", what, err)
	}
}

func TestVerbErrorsContainNoKey(t *testing.T) {
	ten, twenty, hour := exact("api", 10, time.Minute), exact("api", 20, time.Minute), slidegate.PerHour(100)
	store := newReference()
	none := newPerCall(t, store)
	for _, test := range []struct {
		what    string
		limiter *slidegate.Limiter
		cost    int64
		verbs   []verb
	}{
		{"invalid cost", newLimiter(t, store, ten), -1, append(keyVerbs(), claimVerbs(ten)...)},
		{"no limits", none, 1, append(keyVerbs(), claimVerbs()...)},
		{"conflict", none, 1, claimVerbs(ten, twenty)},
		{"wrong limit", none, 1, claimVerbs(slidegate.Limit{})},
		{"too many", newPerCall(t, singleCharge{store}), 1, claimVerbs(ten, hour)},
	} {
		for _, verb := range test.verbs {
			if verb.free && test.cost < 0 {
				continue
			}
			_, err := verb.call(t.Context(), test.limiter, secret, test.cost)
			checkNoKey(t, test.what+", "+verb.name, err)
		}
	}
}

func TestOtherErrorsContainNoKey(t *testing.T) {
	ctx, limit, hour := t.Context(), exact("api", 10, time.Minute), slidegate.PerHour(100)
	store := newReference()
	limiter := newLimiter(t, store, limit)
	allow(t, limiter, secret, 10)
	late, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	checkNoKey(t, "deadline", limiter.Wait(late, secret, 1))
	checkNoKey(t, "never", limiter.Wait(late, secret, 11))

	reservation, _, err := limiter.For(claim(limit, "", 10), claim(hour, secret, 1)).InGroup(secret).Reserve(ctx)
	if err != nil {
		t.Fatal(err)
	}
	severalKeys := slidegate.Reservation{Charges: []slidegate.ReservedCharge{
		{Limit: limit, Key: []byte(secret), Cost: 1}, {Limit: limit, Key: []byte(secret + "x"), Cost: 1},
	}}
	spoilt := slidegate.Reservation{Charges: []slidegate.ReservedCharge{{Key: []byte(secret), Cost: 1}}}
	checkNoKey(t, "no such limit", errOf(limiter.Settle(ctx, reservation, slidegate.Used{Limit: "other"})))
	checkNoKey(t, "no such key", errOf(limiter.Settle(ctx, reservation, slidegate.Used{Limit: "100/1h", Key: secret + "x"})))
	checkNoKey(t, "several keys", errOf(limiter.Settle(ctx, severalKeys, slidegate.Used{Limit: "api"})))
	checkNoKey(t, "negative cost", errOf(limiter.SettleAll(ctx, reservation, -1)))
	checkNoKey(t, "large cost", errOf(limiter.SettleAll(ctx, reservation, math.MaxInt64)))
	checkNoKey(t, "spoilt", errOf(limiter.Cancel(ctx, spoilt)))
	_, err = limiter.Renew(ctx, reservation)
	checkNoKey(t, "no slots", err)
	_, _, err = limiter.For(claim(slidegate.Slots(5, time.Minute), secret, 2)).Reserve(ctx)
	checkNoKey(t, "two slots", err)
	_, err = limiter.For(slidegate.Claim{Limit: slidegate.Slots(5, time.Minute), Key: secret}).Allow(ctx)
	checkNoKey(t, "a slot without a reservation", err)
	checkNoKey(t, "a newer version", json.Unmarshal([]byte(`{"version":3,"charges":[{"key":"`+secret+`"}]}`), &spoilt))
	checkNoKey(t, "not base64", json.Unmarshal([]byte(`{"charges":[{"key":"`+secret+`"}]}`), &spoilt))
	checkNoKey(t, "too many charges", errOf(newPerCall(t, singleCharge{store}).Cancel(ctx, reservation)))

	crowded, err := memstore.New(memstore.Options{MaxLimits: 1})
	if err != nil {
		t.Fatal(err)
	}
	if _, err = newPerCall(t, crowded).For(claim(limit, secret, 1), claim(hour, secret, 1)).Allow(ctx); err == nil {
		t.Fatal("got no error for too many shapes")
	}
	checkNoKey(t, "too many shapes", err)
}
