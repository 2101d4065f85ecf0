package slidegate_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"reflect"
	"testing"
	"time"

	"github.com/slidegate/slidegate"
	"github.com/slidegate/slidegate/rule"
	"github.com/slidegate/slidegate/store"
	"github.com/slidegate/slidegate/storetest"
)

// reservationEnds returns the ways to end a reservation of 20 tokens, and how many are used afterwards.
func reservationEnds() map[string]struct {
	end  func(ctx context.Context, l *slidegate.Limiter, r slidegate.Reservation) (slidegate.Settlement, error)
	used int64
} {
	type (
		limiter     = *slidegate.Limiter
		reservation = slidegate.Reservation
		settlement  = slidegate.Settlement
	)
	return map[string]struct {
		end  func(ctx context.Context, l limiter, r reservation) (settlement, error)
		used int64
	}{
		"Settle": {func(ctx context.Context, l limiter, r reservation) (settlement, error) {
			return l.Settle(ctx, r, slidegate.Used{Limit: "tokens", Cost: 7})
		}, 7},
		"SettleAll": {func(ctx context.Context, l limiter, r reservation) (settlement, error) {
			return l.SettleAll(ctx, r, 30)
		}, 30},
		"Finish": {func(ctx context.Context, l limiter, r reservation) (settlement, error) {
			return l.Finish(ctx, r, errWork, slidegate.Used{Limit: "tokens", Cost: 8})
		}, 8},
		"Cancel": {func(ctx context.Context, l limiter, r reservation) (settlement, error) { return l.Cancel(ctx, r) }, 0},
		"Release": {func(ctx context.Context, l limiter, r reservation) (settlement, error) {
			return l.Release(ctx, r)
		}, 20},
	}
}

// The first call that ends a reservation settles it: every later call changes nothing and returns what the first one did,
// with every algorithm, even after some time and from another process.
func TestReservationsSettleOnce(t *testing.T) {
	for _, text := range []string{
		"100/1m sliding-log", "100/1m sliding-window", "100/1m segments=4", "100/1m fixed-window", "100/1h token-bucket", "100/month",
	} {
		limit := slidegate.MustParseLimit(text)
		limit.Name = "tokens"
		for first, ended := range reservationEnds() {
			for second, again := range reservationEnds() {
				overStores(t, func(t *testing.T, st store.Store, clock *storetest.Clock) {
					limiter := newLimiter(t, st, limit)
					r := reserve(t, limiter, 20)
					done, err := ended.end(t.Context(), limiter, r)
					if want := (slidegate.Settlement{Returned: []int64{20 - ended.used}}); err != nil || !reflect.DeepEqual(done, want) {
						t.Fatalf("%s, %s: %+v, %v, want %+v", text, first, done, err, want)
					}
					advance(clock, 29*time.Second)
					want := used(t, limiter, "k")
					repeated, err := again.end(t.Context(), newPerCall(t, st), r)
					if err != nil || !repeated.Repeated || !reflect.DeepEqual(repeated.Returned, done.Returned) {
						t.Errorf("%s, %s after %s: %+v, %v, want a repetition of %+v", text, second, first, repeated, err, done)
					}
					if n := used(t, limiter, "k"); n != want {
						t.Errorf("%s, %s after %s: used %d, want %d", text, second, first, n, want)
					}
				})
			}
		}
	}
}

// lossyStore is a store whose responses get lost, either before or after the request is carried out.
type lossyStore struct {
	store.Store
	random *rand.Rand
}

var errLost = errors.New("the response is lost")

func (l lossyStore) Apply(ctx context.Context, batch []store.Request) error {
	lost := l.random.IntN(3)
	if batch[0].Op != rule.Settle || lost == 2 {
		return l.Store.Apply(ctx, batch)
	}
	if lost == 1 {
		if err := l.Store.Apply(ctx, batch); err != nil {
			return err
		}
	}
	batch[0].Err = errLost
	return errLost
}

// Retrying after an unknown outcome, followed by a Cancel, leaves the counts as if each call had been sent once.
func TestRetriesAfterLostAnswers(t *testing.T) {
	const seed = 1
	overStores(t, func(t *testing.T, st store.Store, _ *storetest.Clock) {
		random := rand.New(rand.NewPCG(seed, 0))
		limiter := newLimiter(t, lossyStore{st, random}, exact("tokens", 10_000, time.Hour))
		var want int64
		for i := range 300 {
			actual := random.Int64N(30)
			r := reserve(t, limiter, 20)
			var done slidegate.Settlement
			err := errLost
			for err != nil {
				done, err = limiter.SettleAll(t.Context(), r, actual)
			}
			if done.Returned[0] != 20-actual {
				t.Fatalf("seed %d, reservation %d: %+v, want %d given back", seed, i, done, 20-actual)
			}
			if _, err := limiter.Cancel(t.Context(), r); err != nil && !errors.Is(err, errLost) {
				t.Fatal(err)
			}
			want += actual
		}
		if n := used(t, limiter, "k"); n != want {
			t.Errorf("seed %d: used %d, want %d", seed, n, want)
		}
	})
}

// When the store cannot remember another settlement, nothing is returned, and the caller gets ErrUnsettled. Slots are
// released.
func TestUnsettled(t *testing.T) {
	limiter := newPerCall(t, newMemory(t, storetest.NewClock(noon)))
	tokens, slots := slidegate.MustParseLimit("1000/1h name=tokens"), slidegate.Slots(1, time.Minute)
	claims := limiter.For(claim(tokens, "k", 3), claim(slots, "k", 1))
	for i := range 10_000 {
		r, d, err := claims.Acquire(t.Context())
		if err != nil || !d.Allowed {
			t.Fatalf("reservation %d: got %+v, %v, want allowed", i, d, err)
		}
		done, err := limiter.Cancel(t.Context(), r)
		if err == nil {
			continue
		}
		if !errors.Is(err, slidegate.ErrUnsettled) || !reflect.DeepEqual(done.Returned, []int64{0, 1}) || i < 4000 {
			t.Errorf("settlement %d: %+v, %v, want ErrUnsettled and the slot back", i, done, err)
		}
		if n := usedOf(t, limiter, tokens, "k"); n != 3 {
			t.Errorf("used %d, want the 3 that were not returned", n)
		}
		if n := usedOf(t, limiter, slots, "k"); n != 0 {
			t.Errorf("%d slots are held, want 0", n)
		}
		return
	}
	t.Error("the store never ran out of memory for settlements")
}

// Charges of one address that were joined by hand are settled together, and the first of them reports what was done.
func TestSettlementOfJoinedCharges(t *testing.T) {
	limiter := newLimiter(t, newReference(), exact("tokens", 10, time.Minute))
	first, second := reserve(t, limiter, 3), reserve(t, limiter, 4)
	first.Charges = append(first.Charges, second.Charges...)
	done, err := limiter.SettleAll(t.Context(), first, 1)
	if got := fmt.Sprint(done.Returned); err != nil || got != "[5 0]" {
		t.Errorf("gave back %s, %v, want all 5 by the first charge", got, err)
	}
}
