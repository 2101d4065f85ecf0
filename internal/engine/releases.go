package engine

import (
	"context"
	"fmt"
	"slices"
	"sync"
)

// releases are the settlements and releases of slots under way on other goroutines, by key.
type releases struct {
	mu    sync.Mutex
	byKey map[string][]chan struct{} // closed when the release is done
}

// begin records a release for these keys. The returned function must be called when it is done.
func (all *releases) begin(keys []string) (ended func()) {
	done := make(chan struct{})
	all.mu.Lock()
	defer all.mu.Unlock()
	if all.byKey == nil {
		all.byKey = map[string][]chan struct{}{}
	}
	for _, key := range keys {
		all.byKey[key] = append(all.byKey[key], done)
	}
	return func() {
		close(done)
		all.mu.Lock()
		defer all.mu.Unlock()
		for _, key := range keys {
			rest := slices.DeleteFunc(all.byKey[key], func(other chan struct{}) bool { return other == done })
			if all.byKey[key] = rest; len(rest) == 0 {
				delete(all.byKey, key)
			}
		}
	}
}

// underway returns the releases of a key.
func (all *releases) underway(key string) []chan struct{} {
	all.mu.Lock()
	defer all.mu.Unlock()
	return slices.Clone(all.byKey[key])
}

// anyUnderway returns a release under way, or nil if there is none.
func (all *releases) anyUnderway() chan struct{} {
	all.mu.Lock()
	defer all.mu.Unlock()
	for _, some := range all.byKey {
		return some[0]
	}
	return nil
}

// Drain waits until all releases of slots and all settlements that Finish has begun are done, and what was taken for
// clients that have left is cancelled, or until ctx ends: for a program that is about to end. That includes the releases
// of the Sets that this one has replaced. Slots that are not released expire after their time to live. If New has put layers
// over the store, Drain closes them: it returns leased units, and from then on nothing is admitted from leases.
func (s *Set) Drain(ctx context.Context) error {
	for done := s.releases.anyUnderway(); done != nil; done = s.releases.anyUnderway() {
		select {
		case <-done:
		case <-ctx.Done():
			return fmt.Errorf("policy: slots are still being released, or costs settled: %w", ctx.Err())
		}
	}
	if s.layers == nil {
		return nil
	}
	if err := s.layers.Close(ctx); err != nil {
		return fmt.Errorf("policy: %w", err)
	}
	return nil
}
