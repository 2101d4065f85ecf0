package slidegate_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/slidegate/slidegate"
	"github.com/slidegate/slidegate/internal/testkit"
	"github.com/slidegate/slidegate/memstore"
	"github.com/slidegate/slidegate/rule"
	"github.com/slidegate/slidegate/store"
	"github.com/slidegate/slidegate/storetest"
)

// Two limits decide together: a refusal comes from the one with the latest RetryAfter, an admission from the one with the
// least left.
func TestSeveralLimitsDecide(t *testing.T) {
	const second, minute, never = time.Second, time.Minute, slidegate.Never
	micros := func(d time.Duration) rule.Micros {
		if d == never {
			return rule.Never
		}
		return rule.Micros(d.Microseconds())
	}
	want := func(allowed bool, granted, remaining int64, retry, reset time.Duration) rule.Answer {
		return rule.Answer{
			Allowed: allowed, Granted: granted, Remaining: remaining, RetryAfter: micros(retry), ResetAfter: micros(reset),
		}
	}
	// left returns the answer of a limit that has none left until next.
	left := func(next time.Duration, a rule.Answer) rule.Answer {
		a.NextAfter = micros(next)
		return a
	}
	// by returns the decision of the limit at index; there are a "second" of quota 2 and a "minute" of quota 4.
	by := func(index int, allowed bool, retry, reset time.Duration, answers ...rule.Answer) slidegate.Decision {
		a := answers[index]
		return slidegate.Decision{
			Allowed: allowed, Index: int32(index), LimitName: []string{"second", "minute"}[index], Quota: []int64{2, 4}[index],
			Granted: a.Granted, Remaining: a.Remaining, RetryAfter: retry, ResetAfter: reset, NextAfter: a.NextAfter.Duration(), Answers: answers,
		}
	}
	steps := []step{
		{0, "the first", callVerb("Allow", "k", 1),
			by(0, true, 0, second, want(true, 1, 1, 0, second), want(true, 1, 3, 0, minute))},
		{0, "up to the lesser remainder", callVerb("AllowUpTo", "k", 3),
			by(0, true, 0, second, left(second, want(true, 1, 0, 0, second)), want(true, 1, 2, 0, minute))},
		{0, "refused by one, charged to none", callVerb("Allow", "k", 1),
			by(0, false, second, second, want(false, 0, 0, second, second), want(true, 0, 2, 0, minute))},
		{second, "a second later", callVerb("Allow", "k", 1),
			by(0, true, 0, second, want(true, 1, 1, 0, second), want(true, 1, 1, 0, minute))},
		{0, "refused by both", callVerb("AllowN", "k", 2),
			by(1, false, 59*second, minute, want(false, 0, 1, second, second), want(false, 0, 1, 59*second, minute))},
		{0, "a peek at that", callVerb("Peek", "k", 2),
			by(1, false, 59*second, minute, want(false, 0, 1, second, second), want(false, 0, 1, 59*second, minute))},
		{0, "never, by the first", callVerb("AllowN", "k", 3),
			by(0, false, never, second, want(false, 0, 1, never, second), want(false, 0, 1, 59*second, minute))},
		{second, "the last of the minute", callVerb("Allow", "k", 1),
			by(1, true, 0, minute, want(true, 1, 1, 0, second), left(58*second, want(true, 1, 0, 0, minute)))},
		{0, "refused by the minute", callVerb("Allow", "k", 1),
			by(1, false, 58*second, minute, want(true, 0, 1, 0, second), want(false, 0, 0, 58*second, minute))},
		{0, "given back to both", callVerb("Refund", "k", 2),
			by(0, true, 0, 0, want(true, 1, 2, 0, 0), want(true, 2, 2, 0, minute))},
	}
	limits := []slidegate.Limit{exact("second", 2, second), exact("minute", 4, minute)}
	overStores(t, func(t *testing.T, store store.Store, clock *storetest.Clock) {
		play(t, newLimiter(t, store, limits...), clock, steps)
	})
	// In the reverse order, only the indexes change.
	slices.Reverse(limits)
	for i := range steps {
		if d := &steps[i].want; d.LimitName != "second" || !tied(d.Answers) {
			d.Index = 1 - d.Index
		} else {
			d.Index, d.LimitName, d.Quota = 0, "minute", 4 // both have the same left: the first one decides
			d.Granted, d.ResetAfter = d.Answers[1].Granted, minute
		}
		slices.Reverse(steps[i].want.Answers)
	}
	overStores(t, func(t *testing.T, store store.Store, clock *storetest.Clock) {
		play(t, newLimiter(t, store, limits...), clock, steps)
	})
}

// After the clock stepped back, the state of a limit that admits stays ahead if another limit refuses the request. The decision
// is flagged, because that limit may refuse later.
func TestClockMovedForAnyLimit(t *testing.T) {
	overStores(t, func(t *testing.T, store store.Store, clock *storetest.Clock) {
		limiter := newLimiter(t, store, exact("hour", 9, time.Hour), exact("day", 2, 24*time.Hour))
		if d, err := limiter.AllowN(t.Context(), "k", 2); err != nil || !d.Allowed || d.Flags != 0 {
			t.Fatalf("got %+v, %v; want 2 admitted without flags", d, err)
		}
		clock.Advance(-rule.Micros((2 * time.Hour).Microseconds()))
		for _, verb := range []string{"Peek", "Allow"} {
			d, err := callVerb(verb, "k", 1)(t.Context(), limiter)
			if err != nil || d.Allowed || d.LimitName != "day" || d.Flags != rule.ClockMoved {
				t.Errorf("%s: got %+v, %v; want a refusal by the day, flagged because of the hour", verb, d, err)
			}
			if hour, day := d.Answers[0].Flags, d.Answers[1].Flags; hour != rule.ClockMoved || day != 0 {
				t.Errorf("%s: got the flags %v and %v, want only the hour's state moved", verb, hour, day)
			}
		}
	})
}

func tied(answers []rule.Answer) bool {
	return answers[0].Allowed && answers[1].Allowed && answers[0].Remaining == answers[1].Remaining
}

// claim is short for a Claim literal.
func claim(limit slidegate.Limit, key string, cost int64) slidegate.Claim {
	return slidegate.Claim{Limit: limit, Key: key, Cost: cost}
}

// A limit per user, one per tenant and a global budget each have their own key and cost, and a refusal by one charges none.
func TestClaimsAreAllOrNothing(t *testing.T) {
	user, tenant, global := exact("user", 5, time.Minute), exact("tenant", 20, time.Minute), exact("global", 100, time.Hour)
	overStores(t, func(t *testing.T, store store.Store, _ *storetest.Clock) {
		limiter := newPerCall(t, store)
		decide := func(who, firm string, n int64) slidegate.Decision {
			t.Helper()
			d, err := limiter.For(claim(user, who, 1), claim(tenant, firm, n), claim(global, "", 2*n)).Allow(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			return d
		}
		if d := decide("ann", "acme", 8); !d.Allowed || d.Index != 0 || d.LimitName != "user" || d.Remaining != 4 || d.Granted != 1 {
			t.Errorf("the user has the least left: got %+v, want 1 granted by user, the first, with 4 left", d)
		}
		if d := decide("bob", "acme", 10); !d.Allowed || d.Index != 1 || d.LimitName != "tenant" || d.Remaining != 2 || d.Granted != 10 {
			t.Errorf("the tenant has the least left: got %+v, want 10 granted by tenant, the second, with 2 left", d)
		}
		if d := decide("ann", "acme", 3); d.Allowed || d.Index != 1 || d.Granted != 0 || len(d.Answers) != 3 || d.Answers[0].Remaining != 4 {
			t.Errorf("the tenant has too little left: got %+v, want a refusal by the second of three, and 4 left of the user", d)
		}
		if d := decide("cy", "corp", 20); !d.Allowed || d.Answers[2].Remaining != 24 {
			t.Errorf("the budget has 100 - 16 - 20 - 40 left: got %+v, want allowed, Remaining 24", d)
		}
		if d := decide("dee", "dint", 15); d.Allowed || d.Index != 2 || d.LimitName != "global" || d.Answers[1].Remaining != 20 {
			t.Errorf("the budget has too little left: got %+v, want a refusal by global, the third, and 20 left of the tenant", d)
		}
	})
}

// The costs of claims on one address add up, and the answers keep the order of the claims.
func TestSameAddressTwice(t *testing.T) {
	a, b := exact("a", 10, time.Minute), exact("b", 4, time.Minute)
	overStores(t, func(t *testing.T, store store.Store, _ *storetest.Clock) {
		limiter := newPerCall(t, store)
		d, err := limiter.For(claim(a, "k", 2), claim(a, "k", 3), claim(b, "k", 1), claim(a, "k", 1)).Allow(t.Context())
		if err != nil || !d.Allowed || len(d.Answers) != 4 {
			t.Fatalf("got %+v, %v, want it allowed, with four answers", d, err)
		}
		if d.Index != 2 || d.LimitName != "b" || d.Remaining != 3 {
			t.Errorf("decided by %q at %d with %d left, want b at 2 with 3 left", d.LimitName, d.Index, d.Remaining)
		}
		for i, want := range []int64{4, 4, 3, 4} {
			if d.Answers[i].Remaining != want {
				t.Errorf("answer %d has %d left, want %d", i, d.Answers[i].Remaining, want)
			}
		}
		d, err = limiter.For(claim(a, "k", 3), claim(a, "k", 2)).Allow(t.Context())
		if err != nil || d.Allowed || d.Remaining != 4 || d.RetryAfter != time.Minute {
			t.Errorf("3 and 2 of the 4 that are left: got %+v, %v, want a refusal with 4 left, for a minute", d, err)
		}
		d, err = limiter.For(claim(a, "k", 2), claim(a, "other", 3)).Allow(t.Context())
		if err != nil || !d.Allowed || d.Remaining != 2 || d.Answers[1].Remaining != 7 {
			t.Errorf("two keys are two addresses: got %+v, %v, want it allowed, with 2 and 7 left", d, err)
		}
	})
}

func TestSameAddressTwiceDoesNotOverflow(t *testing.T) {
	limit := slidegate.PerMinute(rule.MaxQuota)
	limiter := newPerCall(t, newReference())
	claims := make([]slidegate.Claim, 2000) // together their costs exceed 64 bits
	for i := range claims {
		claims[i] = claim(limit, "k", rule.MaxQuota)
	}
	d, err := limiter.For(claims...).Allow(t.Context())
	if err != nil || !d.Allowed || d.Granted != rule.MaxQuota || d.Remaining != 0 {
		t.Errorf("got %+v, %v, want %d granted and nothing left", d.Answers[0], err, rule.MaxQuota)
	}
}

func TestConflictingLimitsAreRejected(t *testing.T) {
	ten, twenty := slidegate.PerMinute(10), slidegate.PerMinute(20)
	whole, refused, named := ten, ten, twenty
	whole.Overlap, refused.CountRefused, named.Name = slidegate.OverlapWhole, true, "burst"
	window, segment := ten, ten
	window.Algorithm, segment.Segments = slidegate.SlidingWindow, 1
	for _, test := range []struct {
		name   string
		claims []slidegate.Claim
		want   error
	}{
		{"quotas", []slidegate.Claim{claim(ten, "k", 1), claim(twenty, "k", 1)}, slidegate.ErrConflict},
		{"overlaps", []slidegate.Claim{claim(window, "k", 1), claim(whole, "k", 1)}, slidegate.ErrConflict},
		{"refusals", []slidegate.Claim{claim(ten, "k", 1), claim(refused, "k", 0)}, slidegate.ErrConflict},
		{"far apart", []slidegate.Claim{claim(ten, "k", 1), claim(ten, "other", 1), claim(twenty, "k", 1)}, slidegate.ErrConflict},
		{"two keys", []slidegate.Claim{claim(ten, "k", 1), claim(twenty, "other", 1)}, nil},
		{"two names", []slidegate.Claim{claim(ten, "k", 1), claim(named, "k", 1)}, nil},
		{"two windows", []slidegate.Claim{claim(ten, "k", 1), claim(slidegate.PerHour(20), "k", 1)}, nil},
		{"a default spelt out", []slidegate.Claim{claim(window, "k", 1), claim(segment, "k", 1)}, nil},
		{"an algorithm named", []slidegate.Claim{claim(ten, "k", 1), claim(exact("", 10, time.Minute), "k", 1)}, nil},
		{"both sides of 100", []slidegate.Claim{claim(ten, "k", 1), claim(slidegate.PerMinute(600), "k", 1)}, slidegate.ErrConflict},
	} {
		store := &recorder{Store: newReference()}
		_, err := newPerCall(t, store).For(test.claims...).Allow(t.Context())
		if !errors.Is(err, test.want) {
			t.Errorf("%s: %v, want %v", test.name, err, test.want)
		}
		if sent := store.take(); err != nil && len(sent) != 0 {
			t.Errorf("%s: the store received a request nevertheless", test.name)
		}
	}
}

// AllowUpTo grants the same amount to every claim: the least that any of them wants and has left.
func TestClaimsUpTo(t *testing.T) {
	a, b := exact("a", 10, time.Minute), exact("b", 6, time.Minute)
	overStores(t, func(t *testing.T, store store.Store, _ *storetest.Clock) {
		limiter := newPerCall(t, store)
		decide := func(n, m int64) slidegate.Decision {
			t.Helper()
			d, err := limiter.For(claim(a, "k", n), claim(b, "k", m)).AllowUpTo(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			return d
		}
		for i, test := range []struct{ n, m, granted int64 }{{3, 9, 3}, {9, 2, 2}, {9, 9, 1}, {1, 1, 0}} {
			d := decide(test.n, test.m)
			if d.Granted != test.granted || d.Allowed != (test.granted > 0) {
				t.Errorf("%d: granted %d, want %d", i, d.Granted, test.granted)
			}
		}
		peek, err := limiter.For(claim(a, "k", 0), claim(b, "k", 0)).Peek(context.Background())
		if err != nil || peek.Answers[0].Remaining != 4 || peek.Answers[1].Remaining != 0 {
			t.Errorf("left over: got %+v, %v, want Remaining 4, Remaining 0", peek, err)
		}
	})
}

// TestOneKey: claims on several keys need a group if the store decides one key at a time.
func TestOneKey(t *testing.T) {
	l := testkit.Must(slidegate.New(oneKeyStore{memstore.NewDefault()}))(t)
	claims := func(keys ...string) slidegate.Claims {
		var all []slidegate.Claim
		for i, key := range keys {
			all = append(all, slidegate.Claim{Limit: exact(fmt.Sprint(i), 5, time.Minute), Key: key})
		}
		return l.For(all...)
	}
	if _, err := claims("ann", "192.0.2.1").Allow(t.Context()); !errors.Is(err, slidegate.ErrUnsupported) || !strings.Contains(err.Error(), "InGroup") {
		t.Errorf("two keys: got %v, want ErrUnsupported and what to do", err)
	}
	for name, c := range map[string]slidegate.Claims{"one key": claims("ann", "ann"), "a group": claims("ann", "192.0.2.1").InGroup("g")} {
		if d, err := c.Allow(t.Context()); err != nil || !d.Allowed {
			t.Errorf("%s: got %+v, %v, want it admitted", name, d, err)
		}
	}
}
