package stores

import (
	"context"
	"log/slog"
	"time"

	"github.com/slidegate/slidegate/layer/failure"
)

// debts are the layers of the failure modes, of which optimistic owes the store what it has admitted.
type debts struct {
	layers []*failure.Store
	logger *slog.Logger
}

// lastCharges is how long the end waits for a store to take charges: one that is down holds nobody up.
const lastCharges = 2 * time.Second

// close charges what is owed, while the store can still be asked.
func (d *debts) close() error {
	ctx, cancel := context.WithTimeout(context.Background(), lastCharges)
	defer cancel()
	for _, layer := range d.layers {
		if err := layer.Close(ctx); err != nil {
			d.logger.Warn("what was admitted while the store did not answer may not be charged", slog.Any("error", err))
		}
	}
	return nil
}
