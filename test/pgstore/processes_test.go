package pgstore_test

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

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/slidegate/slidegate"
	"github.com/slidegate/slidegate/internal/adapter"
	"github.com/slidegate/slidegate/internal/layer/coalesce"
	"github.com/slidegate/slidegate/pgstore"
	"github.com/slidegate/slidegate/rule"
	"github.com/slidegate/slidegate/store"
	"github.com/slidegate/slidegate/test/history"
	"github.com/slidegate/slidegate/test/pgtest"
	"github.com/slidegate/slidegate/test/workers"
)

// patience bounds the time of operations that should be quick.
const patience = 30 * time.Second

// TestWorker is the main function of the other processes.
func TestWorker(t *testing.T) {
	workers.Serve(t, func(job string) (func([]byte) (any, error), error) {
		kind, url, _ := strings.Cut(job, " ")
		pool := pgtest.Pool(t, url)
		store, err := pgstore.New(pool, pgstore.Options{})
		if err == nil {
			err = connectAll(pool)
		}
		switch kind {
		case "history":
			return history.Job(store, pool.Ping), err
		case "settle":
			return func(order []byte) (any, error) { return settleAll(t, pool, order) }, nil // connections are ended, maybe immediately
		}
		return func(order []byte) (any, error) { return race(store, order) }, err
	})
}

// connectAll opens all connections of a pool, so that racing requests do not wait for them.
func connectAll(pool *pgxpool.Pool) error {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	for range pool.Config().MaxConns {
		conn, err := pool.Acquire(ctx)
		if err != nil {
			return err
		}
		defer conn.Release()
	}
	return nil
}

// migrated returns a server with the schema of a store.
func migrated(t *testing.T, s *pgtest.Server, opts pgstore.Options) *pgtest.Server {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	if err := pgstore.Migrate(ctx, s.Pool(t), opts); err != nil {
		t.Fatal(err)
	}
	return s
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
	{Name: "default", Quota: raceQuota, Window: time.Hour},
	{Name: "refused", Quota: raceQuota, Window: time.Hour, Algorithm: slidegate.SlidingLog, CountRefused: true},
	{Name: "slots", Quota: raceQuota, Window: time.Hour, Algorithm: rule.InFlight},
}

// raceOrder is the work of a process in one round.
type raceOrder struct {
	Limit    int // the index in raceLimits
	Keys     []string
	Together bool // whether concurrent requests are combined into one call
}

// Of two hundred concurrent requests of four processes for a new key exactly fifty are admitted, every time, at
// PostgreSQL's default isolation level. In half of the rounds there are four keys, and requests are combined.
func TestProcessesAdmitExactlyTheQuota(t *testing.T) {
	t.Parallel()
	server := migrated(t, pgtest.Shared(t), pgstore.Options{})
	processes := workers.Start(t, raceProcesses, "race "+server.URL("pool_max_conns=16"))
	for round := range 4 * len(raceLimits) {
		order := raceOrder{Limit: round / 2 % len(raceLimits), Keys: []string{fmt.Sprintf("round-%d", round)}}
		if round%2 == 1 {
			key := order.Keys[0]
			order.Keys, order.Together = []string{key + "-a", key + "-b", key + "-c", key + "-d"}, true
		}
		for _, p := range processes {
			p.Send(t, order)
		}
		total := map[string]int64{}
		for _, admitted := range workers.ReceiveAll[map[string]int64](t, processes) {
			for key, n := range admitted {
				total[key] += n
			}
		}
		for _, key := range order.Keys {
			if total[key] != raceQuota {
				t.Errorf("round %d, %s: got %d of %d admitted for one of %d keys, of a quota of %d", round, raceLimits[order.Limit].Name,
					total[key], raceProcesses*raceEach, len(order.Keys), raceQuota)
			}
		}
	}
}

// race sends many concurrent requests for each key, and returns how many were admitted for each.
func race(st store.Store, text []byte) (map[string]int64, error) {
	var order raceOrder
	if err := json.Unmarshal(text, &order); err != nil {
		return nil, err
	}
	limit, err := adapter.Bind("race", raceLimits[order.Limit])
	if err != nil {
		return nil, err
	}
	if order.Together {
		st = coalesce.New(st, coalesce.Options{InFlight: 2, Timeout: patience})
	}
	counts := make([]atomic.Int64, len(order.Keys))
	_, err = runConcurrently(raceEach*len(order.Keys), func(i int) (int64, error) {
		key := i % len(order.Keys)
		granted, err := take(st, store.Charge{Limit: limit, Key: order.Keys[key], Cost: 1})
		counts[key].Add(granted)
		return granted, err
	})
	admitted := map[string]int64{}
	for i, key := range order.Keys {
		admitted[key] = counts[i].Load()
	}
	return admitted, err
}

// runConcurrently calls a function many times concurrently, and adds up the results.
func runConcurrently(n int, do func(i int) (int64, error)) (int64, error) {
	var (
		sum   atomic.Int64
		wait  sync.WaitGroup
		start = make(chan struct{})
		errs  = make([]error, n)
	)
	for i := range n {
		wait.Go(func() {
			<-start
			got, err := do(i)
			sum.Add(got)
			errs[i] = err
		})
	}
	close(start)
	wait.Wait()
	for _, err := range errs {
		if err != nil {
			return 0, err
		}
	}
	return sum.Load(), nil
}

// take sends charges in one request, with a new ID for a slot, and returns what the first charge was granted.
func take(st store.Store, charges ...store.Charge) (int64, error) {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	answers := make([]rule.Answer, len(charges))
	err := st.Apply(ctx, []store.Request{{Op: rule.Take, ID: rule.ID(rand.Uint64()), Charges: charges, Answers: answers}})
	return answers[0].Granted, err
}

// Many callers of four users request two limits together, their user's and their common tenant's, for keys that do not
// exist yet; half of them send the limits in the reverse order. Each user's limit admits exactly its quota,
// and the tenant's is charged exactly the sum: all or nothing, whichever keys were changed concurrently, without
// deadlocks.
func TestTwoNewKeysAtOnce(t *testing.T) {
	t.Parallel()
	server := migrated(t, pgtest.Shared(t), pgstore.Options{})
	pool := server.Pool(t, "pool_max_conns=24")
	if err := connectAll(pool); err != nil {
		t.Fatal(err)
	}
	st, err := pgstore.New(pool, pgstore.Options{})
	if err != nil {
		t.Fatal(err)
	}
	const callers, users, narrowQuota, wideQuota = 64, 4, 5, 1000
	narrow := boundFor(t, slidegate.Limit{Name: "narrow", Quota: narrowQuota, Window: time.Hour, Anchor: slidegate.AnchorFirst})
	for name, limit := range map[string]slidegate.Limit{
		"window": {Name: "wide", Quota: wideQuota, Window: time.Hour, Anchor: slidegate.AnchorFirst},
		"log":    {Name: "widelog", Quota: wideQuota, Window: time.Hour, Algorithm: slidegate.SlidingLog},
	} {
		wide := boundFor(t, limit)
		for round := range 3 {
			tenant := store.Charge{Limit: wide, Key: fmt.Sprintf("tenant-%d", round), Cost: 1}
			admitted, err := runConcurrently(callers, func(i int) (int64, error) {
				user := store.Charge{Limit: narrow, Key: fmt.Sprintf("%s-%d-user-%d", name, round, i%users), Cost: 1}
				if i/users%2 == 0 {
					return take(st, user, tenant)
				}
				return take(st, tenant, user)
			})
			if err != nil || admitted != users*narrowQuota {
				t.Errorf("%s, round %d: got %d of %d admitted, %v", name, round, admitted, callers, err)
			}
			tenant.Cost = 0
			left := remaining(t, st, tenant)
			if want := int64(wideQuota - users*narrowQuota); left != want {
				t.Errorf("%s, round %d: got %d left for the tenant, want %d", name, round, left, want)
			}
		}
	}
}

// remaining peeks at what is left of one limit.
func remaining(t *testing.T, st store.Store, charge store.Charge) int64 {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	answers := make([]rule.Answer, 1)
	if err := st.Apply(ctx, []store.Request{{Op: rule.Peek, Charges: []store.Charge{charge}, Answers: answers}}); err != nil {
		t.Fatal(err)
	}
	return answers[0].Remaining
}

func boundFor(t testing.TB, limit slidegate.Limit) *store.Limit {
	t.Helper()
	bound, err := adapter.Bind("race", limit)
	if err != nil {
		t.Fatal(err)
	}
	return bound
}
