package main

import (
	"context"

	ulule "github.com/ulule/limiter/v3"
	"github.com/ulule/limiter/v3/drivers/store/memory"
)

// ululeLimiter is github.com/ulule/limiter with its memory store. The store ends its sweeper when it is garbage
// collected.
type ululeLimiter struct {
	noClose
	limiter *ulule.Limiter
}

func openUlule(s spec) (limiter, error) {
	options := ulule.StoreOptions{Prefix: ulule.DefaultPrefix, CleanUpInterval: ulule.DefaultCleanUpInterval}
	if s.sweep > 0 {
		options.CleanUpInterval = s.sweep
	}
	store := memory.NewStoreWithOptions(options)
	return &ululeLimiter{limiter: ulule.New(store, ulule.Rate{Period: s.window, Limit: s.quota})}, nil
}

func (u *ululeLimiter) Allow(key string) bool {
	result, err := u.limiter.Get(context.Background(), key)
	return err == nil && !result.Reached
}
