package redisstore_test

import (
	"context"
	"strings"
	"testing"

	"github.com/redis/rueidis"
	"github.com/slidegate/slidegate/redisstore"
	"github.com/slidegate/slidegate/test/history"
	"github.com/slidegate/slidegate/test/race"
	"github.com/slidegate/slidegate/test/redistest"
	"github.com/slidegate/slidegate/test/workers"
)

// TestWorker is the main function of the other processes.
func TestWorker(t *testing.T) {
	workers.Serve(t, func(job string) (func([]byte) (any, error), error) {
		kind, addr, _ := strings.Cut(job, " ")
		opts := rueidis.ClientOption{InitAddress: []string{addr}, DisableCache: true, ForceSingleClient: true}
		client, err := rueidis.NewClient(opts)
		if err != nil {
			return nil, err
		}
		t.Cleanup(client.Close)
		store := newStore(t, client, redisstore.Options{})
		if kind == "history" {
			return history.Job(store, func(ctx context.Context) error { return client.Do(ctx, client.B().Ping().Build()).Error() }), nil
		}
		if kind == "settle" {
			limits := faultyLimits(t)
			return func(order []byte) (any, error) { return settleAll(store, limits, order) }, nil
		}
		if kind == "line" {
			return func(order []byte) (any, error) { return waitAll(store, order) }, nil
		}
		return race.Job(store), nil
	})
}

// Of two hundred concurrent requests of four processes exactly fifty are admitted, every time.
func TestProcessesAdmitExactlyTheQuota(t *testing.T) {
	t.Parallel()
	server := redistest.Server(t, "appendonly no")
	race.Exact(t, workers.Start(t, race.Processes, "race "+server.Addr()), 28, true)
}
