package slidegate_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"reflect"
	"strings"
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
		r, d, err := claims.Reserve(t.Context())
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

// A limit on requests next to limits on tokens: settling tokens does not change the charge for requests.
func TestSettleByLimit(t *testing.T) {
	tpm, tpd, rpm := exact("tpm", 10_000, time.Minute), exact("tpd", 10_000, 24*time.Hour), exact("rpm", 5, time.Minute)
	plain := exact("", 100, time.Hour)
	type used = slidegate.Used
	for name, test := range map[string]struct {
		used []used
		want []int64 // of tpm, tpd, rpm and plain
	}{
		"nothing":             {nil, []int64{2000, 2000, 1, 10}},
		"one limit":           {[]used{{Limit: "tpm", Cost: 700}}, []int64{700, 2000, 1, 10}},
		"some, in any order":  {[]used{{Limit: "tpd", Cost: 3000}, {Limit: "tpm", Cost: 700}}, []int64{700, 3000, 1, 10}},
		"with a key":          {[]used{{Limit: "tpm", Key: "ann", Cost: 700}}, []int64{700, 2000, 1, 10}},
		"to nothing":          {[]used{{Limit: "rpm"}}, []int64{2000, 2000, 0, 10}},
		"by text":             {[]used{{Limit: "100/1h sliding-log", Cost: 3}}, []int64{2000, 2000, 1, 3}},
		"by another spelling": {[]used{{Limit: "100 per 60m sliding-log", Cost: 3}}, []int64{2000, 2000, 1, 3}},
		"by text with a name": {[]used{{Limit: tpm.String(), Cost: 3}}, []int64{3, 2000, 1, 10}},
	} {
		t.Run(name, func(t *testing.T) {
			overStores(t, func(t *testing.T, store store.Store, _ *storetest.Clock) {
				limiter := newPerCall(t, store)
				r, _, err := limiter.For(claim(tpm, "ann", 2000), claim(tpd, "ann", 2000), claim(rpm, "ann", 1), claim(plain, "ann", 10)).Reserve(t.Context())
				if err != nil {
					t.Fatal(err)
				}
				if _, err := limiter.Settle(t.Context(), r, test.used...); err != nil {
					t.Fatal(err)
				}
				for i, limit := range []slidegate.Limit{tpm, tpd, rpm, plain} {
					if got := usedOf(t, limiter, limit, "ann"); got != test.want[i] {
						t.Errorf("used %d of %v, want %d", got, limit, test.want[i])
					}
				}
			})
		})
	}
}

// If the same limit applies to a user and to a tenant, the key selects one.
func TestSettleByKey(t *testing.T) {
	limit := exact("tokens", 100, time.Minute)
	limiter := newPerCall(t, newReference())
	r, _, err := limiter.For(claim(limit, "ann", 20), claim(limit, "acme", 20)).Reserve(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := limiter.Settle(t.Context(), r, slidegate.Used{Limit: "tokens", Cost: 1}); !errors.Is(err, slidegate.ErrReservation) {
		t.Errorf("either key: %v, want ErrReservation", err)
	}
	_, err = limiter.Settle(t.Context(), r, slidegate.Used{Limit: "tokens", Key: "acme", Cost: 50})
	if ann, acme := usedOf(t, limiter, limit, "ann"), usedOf(t, limiter, limit, "acme"); err != nil || ann != 20 || acme != 50 {
		t.Errorf("used %d and %d, want 20 and 50: %v", ann, acme, err)
	}
	both := []slidegate.Used{{Limit: "tokens", Key: "acme", Cost: 5}, {Limit: "tokens", Key: "ann", Cost: 6}}
	if _, err := limiter.Settle(t.Context(), r, both...); err != nil {
		t.Error(err)
	}
}

// A Used that does not identify one limit is rejected, along with the whole settlement, with a list of the limits.
func TestSettleNamesTheLimits(t *testing.T) {
	tpm, rpm := exact("tpm", 100, time.Minute), exact("", 50, time.Hour)
	second, minute := exact("api", 10, time.Second), exact("api", 60, time.Minute)
	type used = slidegate.Used
	for name, test := range map[string]struct {
		used []used
		want []string // in the error
	}{
		"unknown":           {[]used{{Limit: "rpm", Cost: 7}}, []string{`"rpm"`, `"tpm"`, `"50/1h sliding-log"`}},
		"no limit":          {[]used{{Cost: 7}}, []string{`"tpm"`, `"50/1h sliding-log"`}},
		"one of two":        {[]used{{Limit: "tpm", Cost: 7}, {Limit: "other", Cost: 7}}, []string{`"other"`}},
		"twice":             {[]used{{Limit: "tpm", Cost: 7}, {Limit: "tpm", Cost: 8}}, []string{`"tpm"`, "twice"}},
		"the wrong key":     {[]used{{Limit: "tpm", Key: "bob", Cost: 7}}, []string{`"tpm"`, "Used.Key"}},
		"the text of named": {[]used{{Limit: "100/1m sliding-log", Cost: 7}}, []string{`"tpm"`}},
		"one name for two":  {[]used{{Limit: "api", Cost: 7}}, []string{"10/1s", "60/1m"}},
	} {
		limiter := newPerCall(t, newReference())
		limits := []slidegate.Limit{tpm, rpm, second, minute}
		var claims []slidegate.Claim
		for _, limit := range limits {
			claims = append(claims, claim(limit, "ann", 5))
		}
		r, _, err := limiter.For(claims...).Reserve(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		_, err = limiter.Settle(t.Context(), r, test.used...)
		if !errors.Is(err, slidegate.ErrReservation) {
			t.Errorf("%s: %v, want ErrReservation", name, err)
			continue
		}
		for _, want := range test.want {
			if !strings.Contains(err.Error(), want) {
				t.Errorf("%s: %q does not contain %s", name, err, want)
			}
		}
		for _, limit := range limits {
			if n := usedOf(t, limiter, limit, "ann"); n != 5 {
				t.Errorf("%s: rejected, but %d are used of %v", name, n, limit)
			}
		}
	}
}

// An error about a cost contains the cost that was given, not its difference from the estimate.
func TestSettledCostsOutOfRange(t *testing.T) {
	limiter := newPerCall(t, newReference())
	r, _, err := limiter.For(slidegate.Claim{Limit: slidegate.PerMinute(5), Key: "ann", Cost: 3}).Reserve(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, cost := range []int64{-1, rule.MaxQuota + 1, math.MaxInt64, math.MinInt64} {
		for name, err := range map[string]error{
			"Settle":    errOf(limiter.Settle(t.Context(), r, slidegate.Used{Limit: "5/1m", Cost: cost})),
			"SettleAll": errOf(limiter.SettleAll(t.Context(), r, cost)),
		} {
			if !errors.Is(err, slidegate.ErrCost) || !strings.Contains(err.Error(), fmt.Sprintf("not %d", cost)) {
				t.Errorf("%s of %d: %v, want an ErrCost that contains the number", name, cost, err)
			}
		}
	}
	own, err := slidegate.New(newReference(), slidegate.PerMinute(5))
	if err != nil {
		t.Fatal(err)
	}
	for _, cost := range []int64{0, -1} {
		if _, err := own.Charge(t.Context(), "ann", cost); !errors.Is(err, slidegate.ErrCost) || !strings.Contains(err.Error(), "must be 1 to") {
			t.Errorf("Charge of %d: %v, want an ErrCost that contains the range", cost, err)
		}
	}
}
