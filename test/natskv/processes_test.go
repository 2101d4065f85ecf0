package natskv_test

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/slidegate/slidegate"
	"github.com/slidegate/slidegate/internal/adapter"
	"github.com/slidegate/slidegate/kvstore"
	"github.com/slidegate/slidegate/kvstore/natskv"
	"github.com/slidegate/slidegate/rule"
	"github.com/slidegate/slidegate/store"
	"github.com/slidegate/slidegate/test/history"
	"github.com/slidegate/slidegate/test/kit"
	"github.com/slidegate/slidegate/test/natstest"
	"github.com/slidegate/slidegate/test/workers"
)

// job is the configuration of a process.
type job struct {
	Kind     string // "history" or "race"
	URL      string
	Replicas int
}

// startWorkers starts processes; the i-th connects to url(i) first.
func startWorkers(t *testing.T, n int, kind string, url func(first int) string, replicas int) (all []*workers.Worker) {
	t.Helper()
	for i := range n {
		text := kit.Must(json.Marshal(job{kind, url(i), replicas}))(t)
		all = append(all, workers.Start(t, 1, string(text))...)
	}
	return all
}

// TestWorker is the main function of the other processes.
func TestWorker(t *testing.T) {
	workers.Serve(t, func(text string) (func([]byte) (any, error), error) {
		var j job
		if err := json.Unmarshal([]byte(text), &j); err != nil {
			return nil, err
		}
		engine := open(t, j.URL, natskv.Options{Replicas: j.Replicas})
		if j.Kind == "history" {
			st := kit.Must(kvstore.New(engine, kvstore.Options{}))(t)
			return history.Job(st, func(ctx context.Context) error { return alive(ctx, engine) }), nil
		}
		st := newStore(t, engine, nil)
		return func(order []byte) (any, error) { return race(st, order) }, nil
	})
}

// alive returns an error if the engine cannot write.
func alive(ctx context.Context, engine *natskv.Engine) error {
	name := fmt.Sprintf("alive-%d", os.Getpid())
	_, revision, err := engine.Get(ctx, name)
	if err == nil {
		_, err = engine.Swap(ctx, name, nil, revision, time.Minute)
	}
	return err
}

const (
	raceQuota     = 50
	raceProcesses = 4
	raceEach      = 50 // concurrent requests per process
)

// raceLimits are limits that admit the same number at any time.
var raceLimits = []slidegate.Limit{
	{Name: "window", Quota: raceQuota, Window: time.Hour, Anchor: slidegate.AnchorFirst},
	{Name: "log", Quota: raceQuota, Window: time.Hour, Algorithm: slidegate.SlidingLog},
	{Name: "fixed", Quota: raceQuota, Window: time.Hour, Algorithm: slidegate.FixedWindow, Anchor: slidegate.AnchorFirst},
	{Name: "parts", Quota: raceQuota, Window: time.Hour, Segments: 60, Anchor: slidegate.AnchorFirst},
	{Name: "slots", Quota: raceQuota, Window: time.Hour, Algorithm: rule.InFlight},
	{Name: "refused", Quota: raceQuota, Window: time.Hour, Algorithm: slidegate.SlidingLog, CountRefused: true},
}

// raceOrder is the work of a process in one round.
type raceOrder struct {
	Limit int // the index in raceLimits
	Key   string
}

func TestProcessesAdmitExactlyTheQuota(t *testing.T) {
	t.Parallel()
	url := natstest.StartNode(t).URL()
	testRace(t, func(int) string { return url }, 1)
}

// testRace sends two hundred concurrent requests from four processes, of which exactly fifty are admitted, every time.
func testRace(t *testing.T, url func(first int) string, replicas int) {
	t.Helper()
	processes := startWorkers(t, raceProcesses, "race", url, replicas)
	const rounds = 24
	for round := range rounds {
		limit := round % len(raceLimits)
		for _, p := range processes {
			p.Send(t, raceOrder{Limit: limit, Key: fmt.Sprintf("round-%d", round)})
		}
		total := 0
		for _, admitted := range workers.ReceiveAll[int](t, processes) {
			total += admitted
		}
		if total != raceQuota {
			t.Errorf("round %d, %s: got %d of %d requests admitted, want %d", round, raceLimits[limit].Name, total, raceProcesses*raceEach, raceQuota)
		}
	}
	t.Logf("%d rounds of %d requests at once: %d passed in each", rounds, raceProcesses*raceEach, raceQuota)
}

// race sends many concurrent requests for one key, and returns how many were admitted.
func race(st store.Store, text []byte) (admitted int64, err error) {
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
			a, err := take(st, limit, order.Key, 1)
			if err != nil {
				fault.Store(err)
			}
			count.Add(a.Granted)
		})
	}
	close(start)
	wait.Wait()
	if err, ok := fault.Load().(error); ok {
		return 0, err
	}
	return count.Load(), nil
}

// take requests units, and a slot that no other process holds.
func take(st store.Store, limit *store.Limit, key string, cost int64) (rule.Answer, error) {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	answers := make([]rule.Answer, 1)
	charges := []store.Charge{{Limit: limit, Key: key, Cost: cost}}
	err := st.Apply(ctx, []store.Request{{Op: rule.Take, ID: rule.ID(rand.Uint64()), Charges: charges, Answers: answers}})
	return answers[0], err
}
