package main

import (
	"context"

	"github.com/throttled/throttled/v2"
	"github.com/throttled/throttled/v2/store/memstore"
)

// throttledLimiter is github.com/throttled/throttled with its memstore. Its compare-and-swap gives up after ten
// attempts with an error; that counts as a refusal here.
type throttledLimiter struct {
	noClose
	limiter *throttled.GCRARateLimiterCtx
}

// openThrottled opens the store without a bound, a plain map.
func openThrottled(s spec) (limiter, error) { return openThrottledBound(s, 0) }

// openThrottledLRU opens the store that is bounded by forgetting the least recently used key.
func openThrottledLRU(s spec) (limiter, error) { return openThrottledBound(s, max(1024, s.keys)) }

func openThrottledBound(s spec, maxKeys int) (limiter, error) {
	store, err := memstore.NewCtx(maxKeys)
	if err != nil {
		return nil, err
	}
	l, err := throttled.NewGCRARateLimiterCtx(store, throttled.RateQuota{
		MaxRate: throttled.PerDuration(int(s.quota), s.window), MaxBurst: int(s.quota) - 1,
	})
	if err != nil {
		return nil, err
	}
	return &throttledLimiter{limiter: l}, nil
}

func (t *throttledLimiter) Allow(key string) bool {
	limited, _, err := t.limiter.RateLimitCtx(context.Background(), key, 1)
	return err == nil && !limited
}
