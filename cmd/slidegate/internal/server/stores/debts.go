package stores

import (
	"context"
	"log/slog"
	"time"

	"github.com/slidegate/slidegate/layer/failure"
)

// debts holds the failure mode layers. The optimistic mode still has to charge what it admitted during an outage.
type debts struct {
	layers []*failure.Store
	logger *slog.Logger
}

// lastCharges is how long shutdown waits for the store to accept charges. A store that is down must not delay shutdown
// further.
const lastCharges = 2 * time.Second

// close makes the outstanding charges while the store can still be called.
func (d *debts) close() error {
	ctx, cancel := context.WithTimeout(context.Background(), lastCharges)
	defer cancel()
	for _, layer := range d.layers {
		if err := layer.Close(ctx); err != nil {
			d.logger.Warn("requests admitted during the outage may not be charged", slog.Any("error", err))
		}
	}
	return nil
}
