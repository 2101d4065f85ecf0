package redisstore_test

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/rueidis"
	"github.com/slidegate/slidegate"
	"github.com/slidegate/slidegate/internal/adapter"
	"github.com/slidegate/slidegate/redisstore"
	"github.com/slidegate/slidegate/rule"
	"github.com/slidegate/slidegate/store"
	"github.com/slidegate/slidegate/test/history"
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
		return func(order []byte) (any, error) { return race(store, order) }, nil
	})
}

const (
	raceQuota     = 50
	raceProcesses = 4
	raceEach      = 50 // concurrent requests per process
)

var raceLimits = []slidegate.Limit{
	{Name: "window", Quota: raceQuota, Window: time.Hour, Anchor: slidegate.AnchorFirst},
	{Name: "log", Quota: raceQuota, Window: time.Hour, Algorithm: slidegate.SlidingLog},
	{Name: "fixed", Quota: raceQuota, Window: time.Hour, Algorithm: slidegate.FixedWindow, Anchor: slidegate.AnchorFirst},
	{Name: "slots", Quota: raceQuota, Window: time.Hour, Algorithm: rule.InFlight},
	{Name: "refused", Quota: raceQuota, Window: time.Hour, Algorithm: slidegate.SlidingLog, CountRefused: true},
}

// raceOrder is the work of a process in one round.
type raceOrder struct {
	Limit int // the index in raceLimits
	Key   string
}

// Of two hundred concurrent requests of four processes exactly fifty are admitted, every time.
func TestProcessesAdmitExactlyTheQuota(t *testing.T) {
	t.Parallel()
	server := redistest.Server(t, "appendonly no")
	processes := workers.Start(t, raceProcesses, "race "+server.Addr())
	for round := range 20 {
		for _, p := range processes {
			p.Send(t, raceOrder{Limit: round % len(raceLimits), Key: fmt.Sprintf("round-%d", round)})
		}
		total := 0
		for _, admitted := range workers.ReceiveAll[int](t, processes) {
			total += admitted
		}
		if total != raceQuota {
			t.Errorf("round %d: got %d of %d admitted, of a quota of %d", round, total, raceProcesses*raceEach, raceQuota)
		}
	}
}

// race sends many concurrent requests for one key, and returns how many were admitted.
func race(st *redisstore.Store, text []byte) (admitted int64, err error) {
	var (
		order raceOrder
		count atomic.Int64
		wait  sync.WaitGroup
		fault atomic.Value
	)
	if err := json.Unmarshal(text, &order); err != nil {
		return 0, err
	}
	limit, err := adapter.Bind("race", raceLimits[order.Limit])
	if err != nil {
		return 0, err
	}
	start := make(chan struct{})
	for range raceEach {
		wait.Go(func() {
			<-start
			r := request(rule.Take, limit, order.Key, rule.ID(rand.Uint64()), 1)
			if err := st.Apply(context.Background(), []store.Request{r}); err != nil {
				fault.Store(err)
			}
			count.Add(r.Answers[0].Granted)
		})
	}
	close(start)
	wait.Wait()
	if err, ok := fault.Load().(error); ok {
		return 0, err
	}
	return count.Load(), nil
}
