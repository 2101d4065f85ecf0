package main

import (
	"context"

	golimiter "github.com/sethvargo/go-limiter"
	"github.com/sethvargo/go-limiter/memorystore"
)

// goLimiter is github.com/sethvargo/go-limiter with its memorystore.
type goLimiter struct{ store golimiter.Store }

func openGoLimiter(s spec) (limiter, error) {
	config := memorystore.Config{Tokens: uint64(s.quota), Interval: s.window}
	if s.sweep > 0 {
		config.SweepInterval, config.SweepMinTTL = s.sweep, s.window
	}
	store, err := memorystore.New(&config)
	if err != nil {
		return nil, err
	}
	return &goLimiter{store}, nil
}

func (g *goLimiter) Allow(key string) bool {
	_, _, _, ok, err := g.store.Take(context.Background(), key)
	return ok && err == nil
}

func (g *goLimiter) Close() {
	g.store.Close(context.Background()) //nolint:errcheck // It only ever returns nil.
}
