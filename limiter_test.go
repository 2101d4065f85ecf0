package slidegate_test

import (
	"context"
	"errors"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/slidegate/slidegate"
	"github.com/slidegate/slidegate/internal/adapter"
	"github.com/slidegate/slidegate/memstore"
	"github.com/slidegate/slidegate/rule"
	"github.com/slidegate/slidegate/store"
	"github.com/slidegate/slidegate/storetest"
)

func TestNewErrors(t *testing.T) {
	good, second := slidegate.PerMinute(10), time.Second
	limits := func(limits ...slidegate.Limit) []slidegate.Limit { return limits }
	for _, test := range []struct {
		name   string
		store  store.Store
		limits []slidegate.Limit
		is     error
		want   string
	}{
		{"no store", nil, limits(good), nil, "store:"},
		{"the zero limit", newReference(), limits(slidegate.Limit{}), slidegate.ErrLimit, "quota:"},
		{"no quota", newReference(), limits(good, slidegate.Limit{Window: second}), slidegate.ErrLimit, "quota:"},
		{"no window", newReference(), limits(slidegate.Limit{Quota: 1}), slidegate.ErrLimit, "window:"},
		{"half microseconds", newReference(), limits(slidegate.Limit{Quota: 1, Window: second + 500}), slidegate.ErrLimit, "window:"},
		{"segments", newReference(), limits(slidegate.Limit{Quota: 1, Window: second, Segments: 7}), slidegate.ErrLimit, "segments:"},
		{"burst", newReference(), limits(slidegate.Limit{Quota: 1, Window: second, Burst: 7}), slidegate.ErrLimit, "burst:"},
		{"algorithm", newReference(), limits(slidegate.Limit{Quota: 1, Window: second, Algorithm: 9}), slidegate.ErrLimit, "algorithm:"},
		{"too many limits", singleCharge{newReference()}, limits(good, slidegate.PerHour(100)), store.ErrUnsupported, "singleCharge"},
		{
			"what the store cannot keep", noBuckets{newReference()},
			limits(good, slidegate.Limit{Quota: 1, Window: second, Algorithm: slidegate.TokenBucket}), store.ErrUnsupported, "token-bucket",
		},
	} {
		limiter, err := slidegate.New(test.store, test.limits...)
		switch {
		case err == nil || limiter != nil:
			t.Errorf("%s: got no error", test.name)
		case test.is != nil && !errors.Is(err, test.is):
			t.Errorf("%s: got %v, want %v", test.name, err, test.is)
		case !strings.Contains(err.Error(), test.want):
			t.Errorf("%s: got %v, want it to contain %q", test.name, err, test.want)
		}
	}
	if _, err := slidegate.New(singleCharge{newReference()}, good); err != nil {
		t.Errorf("one limit: got %v, want no error", err)
	}
}

// A limiter copies its limits: neither the slice passed to it nor the one that Limits returns can change them.
func TestLimitsAreCopied(t *testing.T) {
	want := []slidegate.Limit{slidegate.PerSecond(10), slidegate.PerHour(1000)}
	given := []slidegate.Limit{slidegate.PerSecond(10), slidegate.PerHour(1000)}
	limiter := newLimiter(t, newReference(), given...)
	given[0] = slidegate.PerSecond(99)
	limiter.Limits()[1] = slidegate.PerHour(99)
	if got := limiter.Limits(); !reflect.DeepEqual(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}

// step is one request to a limiter and the decision that it must return, in every field.
type step struct {
	after time.Duration // time since the previous step
	name  string
	call  func(ctx context.Context, l *slidegate.Limiter) (slidegate.Decision, error)
	want  slidegate.Decision
}

func play(t *testing.T, limiter *slidegate.Limiter, clock *storetest.Clock, steps []step) {
	t.Helper()
	for _, step := range steps {
		want := step.want
		want.At = clock.Advance(rule.Micros(step.after.Microseconds()))
		for i := range want.Answers {
			want.Answers[i].At = want.At
		}
		got, err := step.call(t.Context(), limiter)
		if err != nil {
			t.Fatalf("%s: got the error %v, want none", step.name, err)
		}
		if !reflect.DeepEqual(got, want) {
			t.Fatalf("%s:\n got  %+v\n want %+v", step.name, got, want)
		}
	}
}

// callVerb returns a call of the verb of keyVerbs with that name.
func callVerb(name, key string, n int64) func(context.Context, *slidegate.Limiter) (slidegate.Decision, error) {
	for _, verb := range keyVerbs() {
		if verb.name == name {
			return func(ctx context.Context, l *slidegate.Limiter) (slidegate.Decision, error) {
				return verb.call(ctx, l, key, n)
			}
		}
	}
	panic("no verb " + name)
}

func TestVerbs(t *testing.T) {
	// decided returns a decision about the limit below.
	decided := func(allowed bool, granted, remaining int64, retryAfter, resetAfter time.Duration) slidegate.Decision {
		return slidegate.Decision{
			Allowed: allowed, LimitName: "api", Quota: 5,
			Granted: granted, Remaining: remaining, RetryAfter: retryAfter, ResetAfter: resetAfter,
		}
	}
	// next sets when a unit is free again after an admission that left none.
	next := func(d slidegate.Decision, after time.Duration) slidegate.Decision {
		d.NextAfter = after
		return d
	}
	const never = slidegate.Never
	overStores(t, func(t *testing.T, store store.Store, clock *storetest.Clock) {
		play(t, newLimiter(t, store, exact("api", 5, time.Minute)), clock, []step{
			{0, "a free key", callVerb("Peek", "k", 1), decided(true, 0, 5, 0, 0)},
			{0, "one", callVerb("Allow", "k", 1), decided(true, 1, 4, 0, time.Minute)},
			{10 * time.Second, "several", callVerb("AllowN", "k", 3), decided(true, 3, 1, 0, time.Minute)},
			{10 * time.Second, "more than there is", callVerb("AllowN", "k", 2), decided(false, 0, 1, 40*time.Second, 50*time.Second)},
			{0, "a peek at as much", callVerb("Peek", "k", 2), decided(false, 0, 1, 40*time.Second, 50*time.Second)},
			{0, "a peek at what there is", callVerb("Peek", "k", 1), decided(true, 0, 1, 0, 50*time.Second)},
			{0, "more than there ever is", callVerb("AllowN", "k", 6), decided(false, 0, 1, never, 50*time.Second)},
			{0, "a peek at that", callVerb("Peek", "k", 6), decided(false, 0, 1, never, 50*time.Second)},
			{0, "the largest cost", callVerb("AllowN", "k", rule.MaxQuota), decided(false, 0, 1, never, 50*time.Second)},
			{0, "nothing", callVerb("AllowN", "k", 0), decided(true, 0, 1, 0, 50*time.Second)},
			{0, "up to more", callVerb("AllowUpTo", "k", 9), next(decided(true, 1, 0, 0, time.Minute), 40*time.Second)},
			{0, "up to more when full", callVerb("AllowUpTo", "k", 9), decided(false, 0, 0, 40*time.Second, time.Minute)},
			{0, "one when full", callVerb("Allow", "k", 1), decided(false, 0, 0, 40*time.Second, time.Minute)},
			{0, "nothing when full", callVerb("AllowN", "k", 0), next(decided(true, 0, 0, 0, time.Minute), 40*time.Second)},
			{0, "another key", callVerb("Allow", "other", 1), decided(true, 1, 4, 0, time.Minute)},
			{
				40*time.Second - time.Microsecond, "too early", callVerb("Allow", "k", 1),
				decided(false, 0, 0, time.Microsecond, 20*time.Second+time.Microsecond),
			},
			{time.Microsecond, "exactly at RetryAfter", callVerb("Allow", "k", 1), next(decided(true, 1, 0, 0, time.Minute), 10*time.Second)},
			{0, "the oldest back", callVerb("Refund", "k", 2), decided(true, 2, 2, 0, time.Minute)},
			{0, "more back than there is", callVerb("Refund", "k", 9), decided(true, 3, 5, 0, 0)},
			{0, "back to a free key", callVerb("Refund", "k", 9), decided(true, 0, 5, 0, 0)},
			{0, "up to less than there is", callVerb("AllowUpTo", "k", 3), decided(true, 3, 2, 0, time.Minute)},
			{0, "the other key again", callVerb("Peek", "other", 1), decided(true, 0, 4, 0, 20*time.Second)},
		})
	})
}

func TestResetForgetsOneKey(t *testing.T) {
	overStores(t, func(t *testing.T, store store.Store, _ *storetest.Clock) {
		limiter := newLimiter(t, store, slidegate.PerMinute(5))
		allow(t, limiter, "a", 5)
		allow(t, limiter, "b", 4)
		if err := limiter.Reset(t.Context(), "a"); err != nil {
			t.Fatal(err)
		}
		if a, b := used(t, limiter, "a"), used(t, limiter, "b"); a != 0 || b != 4 {
			t.Errorf("used %d and %d, want 0 and 4", a, b)
		}
	})
}

// A decision contains a limit's name, or its text if it has none.
func TestDecisionNamesTheLimit(t *testing.T) {
	for want, limit := range map[string]slidegate.Limit{
		"login":              {Name: "login", Quota: 5, Window: time.Minute},
		"5/1m":               slidegate.PerMinute(5),
		"5/1h":               slidegate.PerHour(5),
		"5/1s":               slidegate.PerSecond(5),
		"5/1s overlap=whole": {Quota: 5, Window: time.Second, Overlap: slidegate.OverlapWhole},
	} {
		for _, store := range []store.Store{newReference(), batchOnly{newReference()}} {
			if d := allow(t, newLimiter(t, store, limit), "k", 1); d.LimitName != want || d.Quota != 5 || d.Remaining != 4 {
				t.Errorf("%q with %d of %d left, want %q with 4 of 5", d.LimitName, d.Remaining, d.Quota, want)
			}
		}
	}
}

// A cost of 0 as an argument is a peek with every method that takes units: nothing is written, even if refusals count.
func TestCostZeroChargesNothing(t *testing.T) {
	limit := exact("", 2, time.Minute)
	limit.CountRefused = true
	overStores(t, func(t *testing.T, store store.Store, clock *storetest.Clock) {
		limiter := newLimiter(t, store, limit)
		allow(t, limiter, "k", 2)
		clock.Advance(rule.Micros(time.Second.Microseconds()))
		for _, verb := range keyVerbs() {
			if verb.free || verb.name == "Charge" {
				continue
			}
			if _, err := verb.call(t.Context(), limiter, "k", 0); err != nil {
				t.Errorf("%s: got the error %v, want none", verb.name, err)
			}
			if d, err := limiter.Peek(t.Context(), "k", 1); err != nil || d.RetryAfter != 59*time.Second {
				t.Fatalf("%s with cost 0 moved RetryAfter from 59s to %v, %v", verb.name, d.RetryAfter, err)
			}
		}
	})
}

// A decision takes one request to the store, however many limits there are.
func TestOneRoundTrip(t *testing.T) {
	store := &recorder{Store: newReference()}
	limits := []slidegate.Limit{slidegate.PerSecond(10), slidegate.PerMinute(100), slidegate.PerHour(1000)}
	limiter := newLimiter(t, store, limits...)
	for _, verb := range append(keyVerbs(), claimVerbs(limits...)...) {
		if _, err := verb.call(t.Context(), limiter, "k", 1); err != nil {
			t.Fatalf("%s: got the error %v, want none", verb.name, err)
		}
		if sent := store.take(); len(sent) != 1 || len(sent[0].Charges) != 3 {
			t.Errorf("%s sent %d requests, want 1", verb.name, len(sent))
		}
	}
}

// Two limits with one address would be charged to the same counts, which is never intended.
func TestNewRejectsTwoLimitsWithOneAddress(t *testing.T) {
	ten := slidegate.PerMinute(10)
	for _, limits := range [][]slidegate.Limit{{ten, slidegate.PerMinute(20)}, {ten, ten}, {slidegate.PerHour(1), ten, ten}} {
		if _, err := slidegate.New(newReference(), limits...); !errors.Is(err, slidegate.ErrConflict) {
			t.Errorf("%v: got the error %v, want ErrConflict", limits, err)
		}
	}
	named := ten
	named.Name = "other"
	if _, err := slidegate.New(newReference(), ten, named, slidegate.PerHour(10)); err != nil {
		t.Error(err)
	}
}

func TestNewWithoutStore(t *testing.T) {
	_, err := slidegate.New(nil)
	_, err2 := slidegate.New(slidegate.Namespace(nil, "shop"), slidegate.PerHour(1))
	for _, err := range []error{err, err2} {
		if err == nil || !strings.Contains(err.Error(), "store: must not be nil") {
			t.Errorf("no store: got %v", err)
		}
	}
}

func TestMustNew(t *testing.T) {
	if d := allow(t, slidegate.MustNew(newReference(), slidegate.PerDay(5)), "k", 1); !d.Allowed || d.Remaining != 4 {
		t.Errorf("the first of 5 a day: got %+v, want allowed, Remaining 4", d)
	}
	defer func() {
		if err, ok := recover().(error); !ok || !errors.Is(err, slidegate.ErrLimit) {
			t.Errorf("an invalid limit panics with %v, want ErrLimit", err)
		}
	}()
	slidegate.MustNew(newReference(), slidegate.PerSecond(0))
}

func TestPerDay(t *testing.T) {
	if got, want := slidegate.PerDay(7), (slidegate.Limit{Quota: 7, Window: 24 * time.Hour}); got != want {
		t.Errorf("%+v, want %+v", got, want)
	}
}

// A limiter for limits per call keeps its namespace. The methods that need limits of its own return errors.
func TestPerCall(t *testing.T) {
	overStores(t, func(t *testing.T, st store.Store, _ *storetest.Clock) {
		limit := slidegate.Limit{Name: "user", Quota: 2, Window: time.Minute}
		perCall, err := slidegate.New(slidegate.Namespace(st, "shop"))
		if err != nil {
			t.Fatal(err)
		}
		if _, err := perCall.Allow(t.Context(), "ann"); !errors.Is(err, slidegate.ErrLimit) {
			t.Errorf("Allow without limits: got %v, want ErrLimit", err)
		}
		shop, err := slidegate.New(slidegate.Namespace(st, "shop"), limit)
		if err != nil {
			t.Fatal(err)
		}
		allow(t, shop, "ann", 1)
		if d, err := perCall.For(claim(limit, "ann", 1)).Allow(t.Context()); err != nil || !d.Allowed || d.Remaining != 0 {
			t.Errorf("the second of two in the same namespace: got %+v, %v, want allowed, Remaining 0", d, err)
		}
		with, err := perCall.With(limit)
		if err != nil {
			t.Fatal(err)
		}
		if d := allow(t, with, "ann", 1); d.Allowed {
			t.Errorf("the third of two: got %+v, want refused", d)
		}
	})
}

// A single claim decides in every field as a limiter of that limit does, instead of by the limiter's own limits, and on the
// same counts.
func TestSingleClaim(t *testing.T) {
	overStores(t, func(t *testing.T, st store.Store, clock *storetest.Clock) {
		own, given := slidegate.PerHour(1), slidegate.Limit{Name: "plan", Quota: 3, Window: time.Minute}
		limiter, twin := newLimiter(t, st, own), newLimiter(t, st, given)
		for i := range int64(5) {
			want, err := twin.Peek(t.Context(), "ann", 1)
			if err != nil {
				t.Fatal(err)
			}
			if want.Allowed {
				want.Granted, want.Remaining, want.ResetAfter = 1, want.Remaining-1, 0
			}
			got, err := limiter.For(slidegate.Claim{Limit: given, Key: "ann"}).Allow(t.Context())
			if got.Allowed {
				got.ResetAfter = 0 // the charge changed it
			}
			if err != nil || got.Allowed != (i < 3) || got.LimitName != "plan" || got.Granted != want.Granted ||
				got.Remaining != want.Remaining || got.RetryAfter != want.RetryAfter || got.ResetAfter != want.ResetAfter || got.At != want.At {
				t.Errorf("request %d: %+v, %v, want %+v", i, got, err, want)
			}
			clock.Advance(1000)
		}
		if d := allow(t, limiter, "ann", 1); !d.Allowed {
			t.Errorf("the limiter's own limit was charged: got %+v, want allowed", d)
		}
	})
}

func TestSingleClaimErrors(t *testing.T) {
	limiter := newPerCall(t, noBuckets{newReference()})
	if _, err := limiter.For(slidegate.Claim{Limit: slidegate.Limit{Quota: 1}, Key: "k"}).Allow(t.Context()); !errors.Is(err, slidegate.ErrLimit) {
		t.Errorf("a limit without a window: %v", err)
	}
	bucket := slidegate.Limit{Quota: 1, Window: time.Second, Algorithm: slidegate.TokenBucket}
	if _, err := limiter.For(slidegate.Claim{Limit: bucket, Key: "k"}).Allow(t.Context()); !errors.Is(err, slidegate.ErrUnsupported) {
		t.Errorf("a limit that the store cannot keep: %v", err)
	}
}

// The claim is what is allocated.
func TestSingleClaimAllocatesOnce(t *testing.T) {
	limiter, err := slidegate.New(memstore.NewDefault())
	if err != nil {
		t.Fatal(err)
	}
	ctx, limit := t.Context(), slidegate.PerHour(1_000_000)
	if n := testing.AllocsPerRun(100, func() {
		if _, err := limiter.For(slidegate.Claim{Limit: limit, Key: "k"}).Allow(ctx); err != nil {
			t.Fatal(err)
		}
	}); n > 1 {
		t.Errorf("got %v allocations, want 1", n)
	}
}

// countingLayer is a layer that counts the calls that go through it.
type countingLayer struct {
	store.Store
	calls *int
}

func (c countingLayer) Apply(ctx context.Context, batch []store.Request) error {
	*c.calls++
	return c.Store.Apply(ctx, batch)
}

// Over puts a layer under a limiter: the same limits, namespace and counts, now through the layer. The original limiter is
// unchanged.
func TestOver(t *testing.T) {
	st := newReference()
	below, err := slidegate.New(slidegate.Namespace(st, "shop"), slidegate.PerHour(3))
	if err != nil {
		t.Fatal(err)
	}
	calls := 0
	above, err := adapter.Over(below, func(s store.Store) (store.Store, error) { return countingLayer{s, &calls}, nil })
	if err != nil {
		t.Fatal(err)
	}
	if d := allow(t, below, "ann", 1); d.Remaining != 2 || calls != 0 {
		t.Errorf("without the layer: %+v after %d calls through it", d, calls)
	}
	if d := allow(t, above, "ann", 1); d.Remaining != 1 || calls != 1 {
		t.Errorf("through the layer: %+v after %d calls through it", d, calls)
	}
	if d, err := above.For(slidegate.Claim{Limit: slidegate.PerHour(3), Key: "ann"}).Allow(t.Context()); err != nil || d.Remaining != 0 || calls != 2 {
		t.Errorf("a limit per call: %+v, %v after %d calls through the layer", d, err, calls)
	}
	perCall := newPerCall(t, st)
	if over, err := adapter.Over(perCall, func(s store.Store) (store.Store, error) { return s, nil }); err != nil || len(over.Limits()) != 0 {
		t.Errorf("a limiter without limits of its own: %v", err)
	}
}

func TestOverErrors(t *testing.T) {
	limiter, broken := newLimiter(t, newReference(), slidegate.PerHour(3)), errors.New("broken")
	if _, err := adapter.Over(limiter, func(store.Store) (store.Store, error) { return nil, broken }); !errors.Is(err, broken) {
		t.Errorf("a failing wrap: got %v, want its error", err)
	}
	if _, err := adapter.Over(limiter, func(store.Store) (store.Store, error) { return nil, nil }); err == nil {
		t.Error("got no error for a nil store")
	}
	bucket := newLimiter(t, newReference(), slidegate.Limit{Quota: 1, Window: time.Second, Algorithm: slidegate.TokenBucket})
	if _, err := adapter.Over(bucket, func(s store.Store) (store.Store, error) { return noBuckets{s}, nil }); !errors.Is(err, slidegate.ErrUnsupported) {
		t.Errorf("a store that cannot keep the limit: %v", err)
	}
}

// A namespace holds wherever it is: over the layers of a store, or under them.
func TestNamespaceUnderALayer(t *testing.T) {
	st, limit := newReference(), slidegate.PerHour(2)
	over := slidegate.MustNew(slidegate.Namespace(store.In(st, store.FailClosed), "shop"), limit)
	under := slidegate.MustNew(store.In(slidegate.Namespace(st, "shop"), store.FailClosed), limit)
	allow(t, over, "ann", 1)
	if d := allow(t, under, "ann", 1); d.Remaining != 0 {
		t.Errorf("got %+v, want the second of two units", d)
	}
	if d := allow(t, slidegate.MustNew(st, limit), "ann", 1); d.Remaining != 1 {
		t.Errorf("got %+v outside the namespace, want the first of two units", d)
	}
}
