// Package slidegate is a sliding-window rate limiter: one exact decision rule, the same on every store, with a
// Retry-After that is true.
//
// A Limiter decides by limits over a Store. The store in the same process is package memstore:
//
//	limiter := slidegate.MustNew(memstore.NewDefault(), slidegate.PerMinute(100))
//	...
//	decision, err := limiter.Allow(ctx, "user:42")
//	if err == nil && !decision.Allowed {
//		// come back in decision.RetryAfter
//	}
//
// Limits are written in Go or as text: PerMinute(100) is "100/1m". A limit that names no algorithm is a SlidingLog up to a quota
// of 100 and a SlidingWindow above. Slots, "50 in-flight ttl=30s", bound what runs at once instead of how often: Acquire, Renew
// and Release hold them. Periods of the calendar, "1000/month zone=Europe/Berlin", are for budgets. Reserve and Settle charge an
// estimate first and the true cost later, once.
//
// A refusal is a Decision, never an error. The rule itself is package rule; what it promises stands in
// docs/guarantees.md.
package slidegate
