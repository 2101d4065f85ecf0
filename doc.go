// Package slidegate is a sliding-window rate limiter: one exact decision rule, the same on every store, with an exact
// Retry-After.
//
// A Limiter applies limits over a Store. Package memstore is the store for a single process:
//
//	limiter := slidegate.MustNew(memstore.NewDefault(), slidegate.PerMinute(100))
//	...
//	decision, err := limiter.Allow(ctx, "user:42")
//	if err == nil && !decision.Allowed {
//		// retry after decision.RetryAfter
//	}
//
// Limits are written in Go or as text: PerMinute(100) is "100/1m". A limit that names no algorithm is a hard cap: no window
// ever holds more than the quota. Slots, "50 in-flight ttl=30s", limit how much runs concurrently instead of how often it
// starts: Acquire, Renew and Release hold them. Calendar periods, "1000/month zone=Europe/Berlin", are for budgets. Reserve
// and Settle charge an estimate first and the actual cost later, exactly once.
//
// A refusal is a Decision, never an error. The rule itself is package rule; docs/guarantees.md states what it promises.
package slidegate
