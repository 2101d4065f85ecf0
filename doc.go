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
// A refusal is a Decision, never an error. The rule itself is package rule; what it promises stands in
// docs/guarantees.md.
package slidegate
