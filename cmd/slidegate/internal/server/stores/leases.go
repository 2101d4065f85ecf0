package stores

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"github.com/slidegate/slidegate/layer/lease"
	"github.com/slidegate/slidegate/store"
)

// leases are the layers that take units in blocks, one for each failure mode.
type leases struct {
	layers []*lease.Store
	logger *slog.Logger
}

// over puts another layer over a store.
func (l *leases) over(st store.Store, timeout time.Duration) (*lease.Store, error) {
	layer, err := lease.New(st, lease.Options{Timeout: max(timeout, time.Second)})
	if err != nil {
		return nil, fmt.Errorf("stores: %w", err)
	}
	l.layers = append(l.layers, layer)
	return layer, nil
}

// stats are those of all layers together.
func (l *leases) stats() (sum lease.Stats) {
	for _, layer := range l.layers {
		s := layer.Stats()
		sum.Keys += s.Keys
		sum.Out += s.Out
		sum.Taken += s.Taken
		sum.Spent += s.Spent
		sum.Returned += s.Returned
		sum.Wasted += s.Wasted
		sum.Decisions += s.Decisions
		sum.Calls += s.Calls
	}
	return sum
}

// lastReturns is how long the end waits for a store to take back what is out: one that is down holds nobody up.
const lastReturns = 2 * time.Second

// close gives back what is out, while the store can still be asked.
func (l *leases) close() error {
	ctx, cancel := context.WithTimeout(context.Background(), lastReturns)
	defer cancel()
	wasted := l.stats().Wasted
	for _, layer := range l.layers {
		_ = layer.Close(ctx) // what is not given back is told below
	}
	after := l.stats()
	if lost := after.Wasted - wasted + after.Out; lost > 0 {
		l.logger.Warn("leased units could not be given back; they count until they leave their windows", slog.Int64("units", lost))
	}
	return nil
}
