package memcached_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/bradfitz/gomemcache/memcache"

	"github.com/slidegate/slidegate"
	"github.com/slidegate/slidegate/internal/adapter"
	"github.com/slidegate/slidegate/kvstore"
	"github.com/slidegate/slidegate/kvstore/memcached"
	"github.com/slidegate/slidegate/rule"
	"github.com/slidegate/slidegate/store"
	"github.com/slidegate/slidegate/test/history"
	"github.com/slidegate/slidegate/test/memcachedtest"
	"github.com/slidegate/slidegate/test/workers"
)

// TestWorker is the main function of the other processes.
func TestWorker(t *testing.T) {
	workers.Serve(t, func(job string) (func([]byte) (any, error), error) {
		kind, addr, _ := strings.Cut(job, " ")
		client := memcachedtest.Client(t, addr)
		if kind == "history" {
			client.Timeout = 300 * time.Millisecond
			st := newStore(t, open(t, client, addr), kvstore.Options{Timeout: 250 * time.Millisecond})
			return history.Job(st, func(context.Context) error { return client.Ping() }), nil
		}
		engine := open(t, client, addr)
		if kind == "weak" {
			st := newStore(t, kvstore.WithLostUpdates(getPutEngine{engine, client}), kvstore.Options{})
			return func(order []byte) (any, error) { return race(st, order) }, nil
		}
		st := newStore(t, engine, kvstore.Options{})
		return func(order []byte) (any, error) { return race(st, order) }, nil
	})
}

const (
	raceQuota     = 50
	raceProcesses = 4
	raceRequests  = 200 // concurrent, of all processes
)

var raceLimits = []slidegate.Limit{
	{Name: "window", Quota: raceQuota, Window: time.Hour, Anchor: slidegate.AnchorFirst},
	{Name: "log", Quota: raceQuota, Window: time.Hour, Algorithm: slidegate.SlidingLog},
	{Name: "fixed", Quota: raceQuota, Window: time.Hour, Algorithm: slidegate.FixedWindow, Anchor: slidegate.AnchorFirst},
	{Name: "slots", Quota: raceQuota, Window: time.Hour, Algorithm: rule.InFlight},
}

// raceOrder is the work of a process in one round.
type raceOrder struct {
	Limit    int // the index in raceLimits
	Key      string
	Requests int
	Start    time.Time // of all processes
}

// runRace makes all processes send requests at the same time, and returns how many were admitted in each round.
func runRace(t *testing.T, processes []*workers.Worker, rounds int) (admitted []int) {
	t.Helper()
	for round := range rounds {
		order := raceOrder{round % len(raceLimits), fmt.Sprintf("round-%d", round), raceRequests / len(processes), time.Now().Add(10 * time.Millisecond)}
		for _, p := range processes {
			p.Send(t, order)
		}
		total := 0
		for _, n := range workers.ReceiveAll[int](t, processes) {
			total += n
		}
		admitted = append(admitted, total)
	}
	return admitted
}

// race sends many concurrent requests for one key, and returns how many were admitted.
func race(st *kvstore.Store, text []byte) (admitted int64, err error) {
	var (
		order raceOrder
		count atomic.Int64
		wait  sync.WaitGroup
		fault atomic.Pointer[error]
	)
	if err := json.Unmarshal(text, &order); err != nil {
		return 0, err
	}
	limit, err := adapter.Bind("race", raceLimits[order.Limit])
	if err != nil {
		return 0, err
	}
	start := make(chan struct{})
	time.AfterFunc(time.Until(order.Start), func() { close(start) })
	for range order.Requests {
		wait.Go(func() {
			<-start
			var answers [1]rule.Answer
			charges := []store.Charge{{Limit: limit, Key: order.Key, Cost: 1}}
			if err := st.Apply(context.Background(), []store.Request{{Op: rule.Take, ID: rule.ID(rand.Uint64()), Charges: charges, Answers: answers[:]}}); err != nil {
				fault.Store(&err)
			}
			count.Add(answers[0].Granted)
		})
	}
	wait.Wait()
	if err := fault.Load(); err != nil {
		return 0, *err
	}
	return count.Load(), nil
}

// Of two hundred concurrent requests of four processes exactly fifty are admitted, every time.
func TestProcessesAdmitExactlyTheQuota(t *testing.T) {
	t.Parallel()
	s := memcachedtest.Start(t)
	for round, n := range runRace(t, workers.Start(t, raceProcesses, "race "+s.Addr()), 20) {
		if n != raceQuota {
			t.Errorf("round %d: got %d of %d requests admitted, want %d", round, n, raceRequests, raceQuota)
		}
	}
}

// getPutEngine is memcached as an engine without compare-and-swap.
type getPutEngine struct {
	*memcached.Engine
	client *memcache.Client
}

func (p getPutEngine) Get(_ context.Context, name string) ([]byte, error) {
	item, err := p.client.Get(name)
	if errors.Is(err, memcache.ErrCacheMiss) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	return item.Value, nil
}

func (p getPutEngine) Put(_ context.Context, name string, value []byte, keep time.Duration) error {
	return p.client.Set(&memcache.Item{Key: name, Value: value, Expiration: int32(keep / time.Second)})
}

// Without compare-and-swap, one process is exact, and several admit what the test prints. Nothing promises that they stay within the
// quota; if they never exceeded it, the test would prove nothing.
func TestLostUpdates(t *testing.T) {
	t.Parallel()
	s := memcachedtest.Start(t)
	for round, n := range runRace(t, workers.Start(t, 1, "weak "+s.Addr()), 8) {
		if n != raceQuota {
			t.Errorf("round %d: got %d of %d requests of one process admitted, want %d", round, n, raceRequests, raceQuota)
		}
	}
	other := memcachedtest.Start(t)
	admitted := runRace(t, workers.Start(t, raceProcesses, "weak "+other.Addr()), 20)
	slices.Sort(admitted)
	t.Logf("%d processes, %d requests at once at a limit of %d, without compare-and-swap: admitted %v; the median is %d",
		raceProcesses, raceRequests, raceQuota, admitted, admitted[len(admitted)/2])
	if most := admitted[len(admitted)-1]; most <= raceQuota || most > raceRequests {
		t.Errorf("at most %d were admitted, want more than %d and no more than %d", most, raceQuota, raceRequests)
	}
}
