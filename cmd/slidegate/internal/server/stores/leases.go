package stores

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"github.com/slidegate/slidegate/layer/lease"
	"github.com/slidegate/slidegate/store"
)

// leases holds the lease layers, one per failure mode.
type leases struct {
	layers []*lease.Store
	logger *slog.Logger
}

// wrap returns a store in a new lease layer.
func (l *leases) wrap(st store.Store, timeout time.Duration) (*lease.Store, error) {
	layer, err := lease.New(st, lease.Options{Timeout: max(timeout, time.Second)})
	if err != nil {
		return nil, fmt.Errorf("stores: %w", err)
	}
	l.layers = append(l.layers, layer)
	return layer, nil
}

// stats returns the sum of the statistics of all layers.
func (l *leases) stats() (sum lease.Stats) {
	for _, layer := range l.layers {
		s := layer.Stats()
		sum.Keys += s.Keys
		sum.Outstanding += s.Outstanding
		sum.Taken += s.Taken
		sum.Spent += s.Spent
		sum.Returned += s.Returned
		sum.Wasted += s.Wasted
		sum.Decisions += s.Decisions
		sum.Calls += s.Calls
	}
	return sum
}

// lastReturns is how long shutdown waits for the store to accept unspent units. A store that is down must not delay shutdown
// further.
const lastReturns = 2 * time.Second

// close returns unspent units while the store can still be called.
func (l *leases) close() error {
	ctx, cancel := context.WithTimeout(context.Background(), lastReturns)
	defer cancel()
	wasted := l.stats().Wasted
	for _, layer := range l.layers {
		_ = layer.Close(ctx) // units that are not returned are logged below
	}
	after := l.stats()
	if lost := after.Wasted - wasted + after.Outstanding; lost > 0 {
		l.logger.Warn("leased units could not be returned; they count until they leave their windows", slog.Int64("units", lost))
	}
	return nil
}
