package slidegate_test

import (
	"context"

	"github.com/slidegate/slidegate"
)

// A verb is a method of a limiter, in a form common to all of them. Verbs without a cost argument use one unit, whatever n
// is.
type verb struct {
	name string
	call func(ctx context.Context, l *slidegate.Limiter, key string, n int64) (slidegate.Decision, error)
	free bool // it has no cost argument
}

type decision = slidegate.Decision

// keyVerbs are the methods that use the limiter's own limits.
func keyVerbs() []verb {
	type limiter = *slidegate.Limiter
	return []verb{
		{"Allow", func(ctx context.Context, l limiter, key string, _ int64) (decision, error) {
			return l.Allow(ctx, key)
		}, true},
		{"AllowN", func(ctx context.Context, l limiter, key string, n int64) (decision, error) {
			return l.AllowN(ctx, key, n)
		}, false},
		{"AllowInto", func(ctx context.Context, l limiter, key string, n int64) (d decision, err error) {
			err = l.AllowInto(ctx, key, n, &d)
			return d, err
		}, false},
		{"AllowUpTo", func(ctx context.Context, l limiter, key string, n int64) (decision, error) {
			return l.AllowUpTo(ctx, key, n)
		}, false},
		{"Peek", func(ctx context.Context, l limiter, key string, _ int64) (decision, error) {
			return l.Peek(ctx, key)
		}, true},
		{"PeekN", func(ctx context.Context, l limiter, key string, n int64) (decision, error) {
			return l.PeekN(ctx, key, n)
		}, false},
		{"Wait", func(ctx context.Context, l limiter, key string, _ int64) (decision, error) {
			return decision{}, l.Wait(ctx, key)
		}, true},
		{"WaitN", func(ctx context.Context, l limiter, key string, n int64) (decision, error) {
			return decision{}, l.WaitN(ctx, key, n)
		}, false},
		{"Reserve", func(ctx context.Context, l limiter, key string, n int64) (decision, error) {
			_, d, err := l.Reserve(ctx, key, n)
			return d, err
		}, false},
		{"Acquire", func(ctx context.Context, l limiter, key string, _ int64) (decision, error) {
			_, d, err := l.Acquire(ctx, key)
			return d, err
		}, true},
		{"Charge", func(ctx context.Context, l limiter, key string, n int64) (decision, error) {
			return l.Charge(ctx, key, n)
		}, false},
		{"Refund", func(ctx context.Context, l limiter, key string, n int64) (decision, error) {
			return l.Refund(ctx, key, n)
		}, false},
		{"Reset", func(ctx context.Context, l limiter, key string, _ int64) (decision, error) {
			return decision{}, l.Reset(ctx, key)
		}, true},
	}
}

// claimVerbs are the methods that use limits given with the request.
func claimVerbs(limits ...slidegate.Limit) []verb {
	one := func(name string, decide func(ctx context.Context, c slidegate.Claims) (decision, error)) verb {
		return verb{name: "For." + name, call: func(ctx context.Context, l *slidegate.Limiter, key string, n int64) (decision, error) {
			var claims []slidegate.Claim
			for _, limit := range limits {
				claims = append(claims, slidegate.Claim{Limit: limit, Key: key, Cost: n})
			}
			return decide(ctx, l.For(claims...))
		}}
	}
	return []verb{
		one("Allow", func(ctx context.Context, c slidegate.Claims) (decision, error) { return c.Allow(ctx) }),
		one("AllowUpTo", func(ctx context.Context, c slidegate.Claims) (decision, error) { return c.AllowUpTo(ctx) }),
		one("Peek", func(ctx context.Context, c slidegate.Claims) (decision, error) { return c.Peek(ctx) }),
		one("Wait", func(ctx context.Context, c slidegate.Claims) (decision, error) { return decision{}, c.Wait(ctx) }),
		one("Reserve", func(ctx context.Context, c slidegate.Claims) (decision, error) {
			_, d, err := c.Reserve(ctx)
			return d, err
		}),
		one("Acquire", func(ctx context.Context, c slidegate.Claims) (decision, error) {
			_, d, err := c.Acquire(ctx)
			return d, err
		}),
		one("Charge", func(ctx context.Context, c slidegate.Claims) (decision, error) { return c.Charge(ctx) }),
		one("Refund", func(ctx context.Context, c slidegate.Claims) (decision, error) { return c.Refund(ctx) }),
		one("Reset", func(ctx context.Context, c slidegate.Claims) (decision, error) { return decision{}, c.Reset(ctx) }),
	}
}
