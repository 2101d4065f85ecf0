package slidegate_test

import (
	"context"
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
		if at := got.Time(); rule.Micros(at.UnixMicro()) != got.At {
			t.Fatalf("%s: Time is %v, At is %d", step.name, at, got.At)
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
			{0, "a peek at as much", callVerb("PeekN", "k", 2), decided(false, 0, 1, 40*time.Second, 50*time.Second)},
			{0, "a peek at what there is", callVerb("Peek", "k", 1), decided(true, 0, 1, 0, 50*time.Second)},
			{0, "more than there ever is", callVerb("AllowN", "k", 6), decided(false, 0, 1, never, 50*time.Second)},
			{0, "a peek at that", callVerb("PeekN", "k", 6), decided(false, 0, 1, never, 50*time.Second)},
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

// A cost of 0 as an argument is a peek with every method that takes units: nothing is written, even if denials count.
func TestCostZeroChargesNothing(t *testing.T) {
	limit := exact("", 2, time.Minute)
	limit.CountDenied = true
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
			if d, err := limiter.Peek(t.Context(), "k"); err != nil || d.RetryAfter != 59*time.Second {
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
