package memcached_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/bradfitz/gomemcache/memcache"

	"github.com/slidegate/slidegate/kvstore"
	"github.com/slidegate/slidegate/kvstore/memcached"
	"github.com/slidegate/slidegate/test/history"
	"github.com/slidegate/slidegate/test/memcachedtest"
	"github.com/slidegate/slidegate/test/race"
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
			return race.Job(st), nil
		}
		st := newStore(t, engine, kvstore.Options{})
		return race.Job(st), nil
	})
}

// Of two hundred concurrent requests of four processes exactly fifty are admitted, every time.
func TestProcessesAdmitExactlyTheQuota(t *testing.T) {
	t.Parallel()
	s := memcachedtest.Start(t)
	race.Exact(t, workers.Start(t, race.Processes, "race "+s.Addr()), 28, false)
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
	race.Exact(t, workers.Start(t, 1, "weak "+s.Addr()), 8, false)
	other := memcachedtest.Start(t)
	var admitted []int64
	race.Run(t, workers.Start(t, race.Processes, "weak "+other.Addr()), 20, false, func(_ string, n int64) { admitted = append(admitted, n) })
	slices.Sort(admitted)
	t.Logf("%d processes, %d requests at once at a limit of %d, without compare-and-swap: admitted %v; the median is %d",
		race.Processes, race.Requests, race.Quota, admitted, admitted[len(admitted)/2])
	if most := admitted[len(admitted)-1]; most <= race.Quota || most > race.Requests {
		t.Errorf("at most %d were admitted, want more than %d and no more than %d", most, race.Quota, race.Requests)
	}
}
