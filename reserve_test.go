package slidegate_test

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"math"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/slidegate/slidegate"
	"github.com/slidegate/slidegate/internal/adapter"
	"github.com/slidegate/slidegate/rule"
	"github.com/slidegate/slidegate/store"
	"github.com/slidegate/slidegate/storetest"
)

func reserve(t testing.TB, limiter *slidegate.Limiter, n int64) slidegate.Reservation {
	t.Helper()
	r, d, err := limiter.Reserve(t.Context(), "k", n)
	if err != nil || !d.Allowed || r.Charges[0].Cost != n {
		t.Fatalf("no reservation: %+v, %v", d, err)
	}
	return r
}

func settle(t testing.TB, limiter *slidegate.Limiter, r slidegate.Reservation, costs ...int64) {
	t.Helper()
	if err := trySettle(t.Context(), limiter, r, costs...); err != nil {
		t.Fatal(err)
	}
}

// errOf returns the error of a settlement.
func errOf(_ slidegate.Settlement, err error) error { return err }

// trySettle settles with one cost for all limits, or with one for each.
func trySettle(ctx context.Context, limiter *slidegate.Limiter, r slidegate.Reservation, costs ...int64) error {
	if len(costs) == 1 {
		return errOf(limiter.SettleAll(ctx, r, costs[0]))
	}
	var used []slidegate.Used
	for i, cost := range costs {
		charge := &r.Charges[i]
		used = append(used, slidegate.Used{Limit: cmp.Or(charge.Limit.Name, charge.Limit.String()), Key: string(charge.Key), Cost: cost})
	}
	return errOf(limiter.Settle(ctx, r, used...))
}

func TestReserve(t *testing.T) {
	limit := exact("tokens", 10, time.Minute)
	overStores(t, func(t *testing.T, store store.Store, clock *storetest.Clock) {
		limiter := newLimiter(t, store, limit)
		r := reserve(t, limiter, 7)
		charges := []slidegate.ReservedCharge{{Limit: limit, Key: []byte("k"), Cost: 7, At: clock.Now()}}
		if r.Version != adapter.ReservationVersion || r.Namespace != "" || r.Group != "" || !reflect.DeepEqual(r.Charges, charges) {
			t.Errorf("reserved %+v, want the charges %+v", r, charges)
		}
		if other := reserve(t, limiter, 1); r.ID == "" || r.ID == other.ID {
			t.Errorf("got the IDs %q and %q, want two different ones", r.ID, other.ID)
		}
		r, d, err := limiter.Reserve(t.Context(), "k", 3)
		if err != nil || d.Allowed || d.RetryAfter != time.Minute || d.Remaining != 2 || d.LimitName != "tokens" {
			t.Errorf("3 of the 2 that are left: got %+v, %v, want a refusal by tokens with 2 left, for a minute", d, err)
		}
		if !reflect.DeepEqual(r, slidegate.Reservation{}) {
			t.Errorf("a refusal reserved %+v", r)
		}
		if n := used(t, limiter, "k"); n != 8 {
			t.Errorf("used %d, want 8", n)
		}
	})
}

// Settling leaves the actual cost used, whether the estimate was too high or too low.
func TestSettle(t *testing.T) {
	for _, limit := range []slidegate.Limit{
		slidegate.PerMinute(10),
		{Quota: 10, Window: time.Minute, Segments: 6},
		{Quota: 10, Window: time.Minute, Algorithm: slidegate.FixedWindow},
		{Quota: 10, Window: 10 * time.Hour, Algorithm: slidegate.TokenBucket}, // slow enough not to refill during the test
		exact("", 10, time.Minute),
	} {
		t.Run(limit.String(), func(t *testing.T) {
			overStores(t, func(t *testing.T, store store.Store, clock *storetest.Clock) {
				limiter := newLimiter(t, store, limit)
				for _, actual := range []int64{5, 2, 0, 8, 10} {
					r := reserve(t, limiter, 5)
					clock.Advance(rule.Micros(time.Second.Microseconds()))
					settle(t, limiter, r, actual)
					if n := used(t, limiter, "k"); n != actual {
						t.Errorf("5 reserved, %d settled: used %d", actual, n)
					}
					if err := limiter.Reset(t.Context(), "k"); err != nil {
						t.Fatal(err)
					}
				}
				r := reserve(t, limiter, 10)
				if _, err := limiter.Cancel(t.Context(), r); err != nil {
					t.Fatal(err)
				}
				if n := used(t, limiter, "k"); n != 0 {
					t.Errorf("10 reserved and cancelled: used %d, want 0", n)
				}
			})
		})
	}
}

// Units used beyond the quota are used nevertheless: they prolong the wait.
func TestSettleBeyondTheQuota(t *testing.T) {
	limit := slidegate.Limit{Quota: 10, Window: time.Minute, Algorithm: slidegate.TokenBucket}
	overStores(t, func(t *testing.T, store store.Store, clock *storetest.Clock) {
		limiter := newLimiter(t, store, limit)
		settle(t, limiter, reserve(t, limiter, 5), 15)
		d := allow(t, limiter, "k", 1)
		if d.Allowed || d.Remaining != 0 || d.RetryAfter != 36*time.Second { // 5 too many and 1 more, of 10 per minute
			t.Errorf("after 15 of 10 were used: got %+v, want refused, Remaining 0, RetryAfter 36s", d)
		}
		clock.Advance(rule.Micros(d.RetryAfter.Microseconds()) - 1)
		if d := allow(t, limiter, "k", 1); d.Allowed {
			t.Errorf("admitted a microsecond too early: got %+v, want refused", d)
		}
		clock.Advance(1)
		if d := allow(t, limiter, "k", 1); !d.Allowed {
			t.Errorf("not admitted at RetryAfter: got %+v, want allowed", d)
		}
	})
}

// One request may have a different cost for each of its limits: requests and tokens, for example.
func TestSettleSeveral(t *testing.T) {
	requests, input, output := exact("requests", 10, time.Minute), exact("input", 100, time.Minute), exact("output", 100, time.Hour)
	for _, test := range []struct {
		costs []int64
		want  []int64 // units used
	}{
		{[]int64{1, 20, 70}, []int64{1, 20, 70}},
		{[]int64{1, 50, 30}, []int64{1, 50, 30}},
		{[]int64{0, 0, 0}, []int64{0, 0, 0}},
		{[]int64{2}, []int64{2, 2, 2}},
	} {
		overStores(t, func(t *testing.T, store store.Store, clock *storetest.Clock) {
			limiter := newPerCall(t, store)
			claims := limiter.For(claim(requests, "ann", 1), claim(input, "ann", 40), claim(output, "acme", 50)).InGroup("acme")
			r, d, err := claims.Reserve(t.Context())
			if err != nil || !d.Allowed || len(r.Charges) != 3 || r.Group != "acme" {
				t.Fatalf("got %+v, %+v, %v, want 3 charges allowed in the group acme", r, d, err)
			}
			clock.Advance(rule.Micros(time.Second.Microseconds()))
			settle(t, limiter, r, test.costs...)
			d, err = claims.Peek(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			for i, quota := range []int64{10, 100, 100} {
				if n := quota - d.Answers[i].Remaining; n != test.want[i] {
					t.Errorf("settled %v: limit %d: used %d", test.costs, i, n)
				}
			}
		})
	}
}

// Units return to the time at which they were taken, not to an earlier time at which other requests took some.
func TestCancelGivesBackItsOwn(t *testing.T) {
	overStores(t, func(t *testing.T, store store.Store, clock *storetest.Clock) {
		limiter := newLimiter(t, store, exact("", 10, time.Minute))
		allow(t, limiter, "k", 3)
		clock.Advance(rule.Micros(30) * rule.Micros(time.Second.Microseconds()))
		r := reserve(t, limiter, 5)
		clock.Advance(rule.Micros(time.Second.Microseconds()))
		if _, err := limiter.Cancel(t.Context(), r); err != nil {
			t.Fatal(err)
		}
		d := allow(t, limiter, "k", 0)
		if d.Remaining != 7 || d.ResetAfter != 29*time.Second {
			t.Errorf("got %+v, want the first 3 to remain charged, for 29s", d)
		}
	})
}

// Units that have left the window are free already: returning them would take units from other requests.
func TestCancelTooLate(t *testing.T) {
	for _, limit := range []slidegate.Limit{
		exact("", 10, time.Minute), slidegate.PerMinute(10), {Quota: 10, Window: time.Minute, Algorithm: slidegate.TokenBucket},
	} {
		overStores(t, func(t *testing.T, store store.Store, clock *storetest.Clock) {
			limiter := newLimiter(t, store, limit)
			r := reserve(t, limiter, 5)
			clock.Advance(rule.Micros(2) * rule.Micros(time.Minute.Microseconds()))
			allow(t, limiter, "k", 4)
			settle(t, limiter, r, 1)
			if _, err := limiter.Cancel(t.Context(), r); err != nil {
				t.Fatal(err)
			}
			if n := used(t, limiter, "k"); n != 4 {
				t.Errorf("%v: used %d, want 4", limit, n)
			}
		})
	}
}

// A settlement with any invalid part is rejected as a whole.
func TestSettleErrors(t *testing.T) {
	a, b := exact("a", 100, time.Minute), exact("b", 100, time.Minute)
	for name, test := range map[string]struct {
		change func(r *slidegate.Reservation)
		costs  []int64
		want   error
	}{
		"a negative cost":    {nil, []int64{-1}, slidegate.ErrCost},
		"one negative cost":  {nil, []int64{1, -1}, slidegate.ErrCost},
		"one too large":      {nil, []int64{1, math.MaxInt64}, slidegate.ErrCost},
		"a limit unreadable": {func(r *slidegate.Reservation) { r.Charges[1].Limit.Quota = 0 }, []int64{1}, slidegate.ErrLimit},
		"no charges":         {func(r *slidegate.Reservation) { *r = slidegate.Reservation{} }, []int64{1}, slidegate.ErrReservation},
	} {
		overStores(t, func(t *testing.T, store store.Store, _ *storetest.Clock) {
			limiter := newLimiter(t, store, a, b)
			r := reserve(t, limiter, 5)
			if test.change != nil {
				test.change(&r)
			}
			if err := trySettle(t.Context(), limiter, r, test.costs...); !errors.Is(err, test.want) {
				t.Errorf("%s: %v, want %v", name, err, test.want)
			}
			d, err := limiter.Peek(t.Context(), "k", 1)
			if err != nil || d.Answers[0].Remaining != 95 || d.Answers[1].Remaining != 95 {
				t.Errorf("%s: rejected, but the counts changed: %+v, %v", name, d.Answers, err)
			}
		})
	}
	limiter := newLimiter(t, newReference(), a)
	if _, err := limiter.Cancel(t.Context(), slidegate.Reservation{}); !errors.Is(err, slidegate.ErrReservation) {
		t.Errorf("cancelling nothing: %v, want ErrReservation", err)
	}
}

// Settling is one request, whether costs go up, down or stay the same: the store must know that it was done.
func TestSettleIsOneRequest(t *testing.T) {
	limits := []slidegate.Limit{slidegate.PerMinute(10), slidegate.PerHour(100)}
	for name, costs := range map[string][]int64{"exactly": {5, 5}, "both ways": {2, 9}, "nothing": {0, 0}} {
		store := &recorder{Store: newReference()}
		limiter := newLimiter(t, store, limits...)
		r := reserve(t, limiter, 5)
		made := store.take()
		settle(t, limiter, r, costs...)
		sent := store.take()
		if len(sent) != 1 || sent[0].Op != rule.Settle || sent[0].ID != made[0].ID || sent[0].ID == 0 || len(sent[0].Charges) != 2 {
			t.Errorf("%s: sent %+v, want one settlement of %+v", name, sent, made)
			continue
		}
		for i, charge := range sent[0].Charges {
			if charge.Cost != 5 || charge.Used != costs[i] || charge.At != r.Charges[i].At {
				t.Errorf("%s: charge %d is %+v, want %d used of 5", name, i, charge, costs[i])
			}
		}
	}
}

// A reservation is a plain value: it survives JSON whatever its key, name and group are, and another process can settle it.
func TestReservationSurvivesJSON(t *testing.T) {
	limits := []slidegate.Limit{
		{Name: "\xff\x00 \"é\"", Quota: 10, Window: time.Minute, Segments: 3},
		{Name: "short", Quota: 10, Window: 5 * time.Millisecond, Algorithm: slidegate.FixedWindow},
		{Quota: rule.MaxQuota, Window: time.Hour, Algorithm: slidegate.TokenBucket, Burst: 10},
	}
	const key, group = "\xff\xfe\x00\"{}", "tenant \"7\""
	overStores(t, func(t *testing.T, store store.Store, _ *storetest.Clock) {
		here, there := newPerCall(t, store), newPerCall(t, store)
		claims := here.For(claim(limits[0], key, 8), claim(limits[1], key, 8), claim(limits[2], key, 8)).InGroup(group)
		r, d, err := claims.Reserve(t.Context())
		if err != nil || !d.Allowed {
			t.Fatalf("got %+v, %v, want it allowed", d, err)
		}
		encoded, err := json.Marshal(r)
		if err != nil {
			t.Fatal(err)
		}
		var received slidegate.Reservation
		if err := json.Unmarshal(encoded, &received); err != nil || !reflect.DeepEqual(received, r) {
			t.Fatalf("%+v became %+v, %v, by way of %s", r, received, err, encoded)
		}
		settle(t, there, received, 3)
		d, err = claims.Peek(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		for i, answer := range d.Answers {
			if answer.Remaining != 7 {
				t.Errorf("limit %d: got %d left, want 7", i, answer.Remaining)
			}
		}
	})
}

// Claims on one address are one charge, with one actual cost.
func TestReserveSameAddressTwice(t *testing.T) {
	limit := slidegate.PerMinute(10)
	limiter := newLimiter(t, newReference(), limit)
	r, d, err := limiter.For(claim(limit, "k", 2), claim(limit, "k", 3)).Reserve(t.Context())
	if err != nil || !d.Allowed || len(r.Charges) != 1 || r.Charges[0].Cost != 5 {
		t.Fatalf("got %+v, %+v, %v, want one charge of 5 allowed", r, d, err)
	}
	settle(t, limiter, r, 1)
	if n := used(t, limiter, "k"); n != 1 {
		t.Errorf("used %d, want 1", n)
	}
}

// If a program joins reservations that no store can settle together, Settle returns an error before anything is settled.
func TestSettleJoinedReservations(t *testing.T) {
	overStores(t, func(t *testing.T, store store.Store, clock *storetest.Clock) {
		limiter := newLimiter(t, store, slidegate.PerMinute(10))
		first, second := reserve(t, limiter, 1), reserve(t, limiter, 2)
		clock.Advance(rule.Micros(time.Second.Microseconds()))
		third := reserve(t, limiter, 4)
		joined := slidegate.Reservation{Version: 1, ID: "joined", Charges: append(first.Charges, third.Charges...)}
		if _, err := limiter.Cancel(t.Context(), joined); !errors.Is(err, slidegate.ErrReservation) {
			t.Errorf("charged at two times: %v, want ErrReservation", err)
		}
		if n := used(t, limiter, "k"); n != 7 {
			t.Errorf("used %d, want 7", n)
		}
		joined = slidegate.Reservation{Version: 1, ID: "joined", Charges: append(first.Charges, second.Charges...)}
		settle(t, limiter, joined, 0)
		if n := used(t, limiter, "k"); n != 4 {
			t.Errorf("used %d, want 4", n)
		}
	})
}

// A reservation is read in one version only, and a failed decoding changes nothing.
func TestReservationVersion(t *testing.T) {
	var r slidegate.Reservation
	const written = `{"version":1,"id":"x","namespace":"n","group":"g","charges":[{"limit":"10/1m","key":"aw==","cost":4,"at":1}]}`
	if err := json.Unmarshal([]byte(written), &r); err != nil {
		t.Fatal(err)
	}
	if encoded, err := json.Marshal(r); err != nil || string(encoded) != written {
		t.Errorf("written as %s, %v, want %s", encoded, err, written)
	}
	before := r
	for _, wrong := range []string{
		`{"version":2,"charges":"in a format of the future"}`, `{"id":"x","charges":[]}`, `{"version":"1"}`, `{"version":-1}`,
		`{"version":1,"charges":[{"limit":"10/1parsec"}]}`, `[]`,
	} {
		if err := json.Unmarshal([]byte(wrong), &r); !errors.Is(err, slidegate.ErrReservation) {
			t.Errorf("%s: %v, want ErrReservation", wrong, err)
		}
	}
	if !reflect.DeepEqual(r, before) {
		t.Errorf("a failed decoding changed the reservation to %+v", r)
	}
	limiter := newPerCall(t, newReference())
	for field, change := range map[string]func(*slidegate.Reservation){
		"version:": func(r *slidegate.Reservation) { r.Version = 2 }, "id:": func(r *slidegate.Reservation) { r.ID = "" },
	} {
		wrong := r
		wrong.Namespace = ""
		change(&wrong)
		if _, err := limiter.Cancel(t.Context(), wrong); !errors.Is(err, slidegate.ErrReservation) || !strings.Contains(err.Error(), field) {
			t.Errorf("cancelling with another %s %v, want ErrReservation", field, err)
		}
	}
}

// A reservation belongs to the namespace in which it was made: elsewhere nothing would be settled.
func TestReservationBelongsToItsNamespace(t *testing.T) {
	limits := []slidegate.Limit{exact("tokens", 100, time.Minute), {Name: "running", Quota: 5, Window: time.Minute, Algorithm: slidegate.InFlight}}
	overStores(t, func(t *testing.T, st store.Store, _ *storetest.Clock) {
		make := func(namespace string) *slidegate.Limiter {
			l, err := slidegate.New(slidegate.Namespace(st, namespace), limits...)
			if err != nil {
				t.Fatal(err)
			}
			return l
		}
		own, other := make("shop"), make("blog")
		r := reserve(t, own, 20)
		for name, end := range reservationEnds() {
			if _, err := end.end(t.Context(), other, r); !errors.Is(err, slidegate.ErrReservation) ||
				!strings.Contains(err.Error(), `"shop"`) || !strings.Contains(err.Error(), `"blog"`) {
				t.Errorf("%s in another namespace: %v, want ErrReservation with both names", name, err)
			}
		}
		if _, err := other.Renew(t.Context(), r); !errors.Is(err, slidegate.ErrReservation) || !strings.Contains(err.Error(), `"blog"`) {
			t.Errorf("renewing in another namespace: %v, want ErrReservation", err)
		}
		if done, err := own.Settle(t.Context(), r, slidegate.Used{Limit: "tokens", Cost: 3}); err != nil || done.Returned[0] != 17 {
			t.Errorf("in its own namespace: %+v, %v, want 17 returned", done, err)
		}
	})
}

// A reservation carries its limit as written, so that another process settles it at the same address, whatever the quota is there.
func TestReservationsAcross100(t *testing.T) {
	for _, text := range []string{"5/1m", "600/1m"} {
		overStores(t, func(t *testing.T, st store.Store, _ *storetest.Clock) {
			base := newLimiter(t, st, slidegate.MustParseLimit("60/1m"))
			limiter, err := base.With(slidegate.MustParseLimit(text))
			if err != nil {
				t.Fatal(err)
			}
			encoded, err := json.Marshal(reserve(t, limiter, 4))
			if err != nil {
				t.Fatal(err)
			}
			var r slidegate.Reservation
			if err := json.Unmarshal(encoded, &r); err != nil || r.Charges[0].Limit != slidegate.MustParseLimit(text) {
				t.Fatalf("%s is %+v, %v", encoded, r, err)
			}
			if n := used(t, base, "k"); n != 4 {
				t.Errorf("%s: used %d before the settlement, want 4", text, n)
			}
			elsewhere := newPerCall(t, st)
			if done, err := elsewhere.Settle(t.Context(), r, slidegate.Used{Limit: text, Cost: 1}); err != nil || done.Returned[0] != 3 {
				t.Errorf("%s: settled %+v, %v, want 3 back", text, done, err)
			}
			if n := used(t, base, "k"); n != 1 {
				t.Errorf("%s: used %d, want 1", text, n)
			}
		})
	}
}
