package pgstore_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/slidegate/slidegate"
	"github.com/slidegate/slidegate/internal/adapter"
	"github.com/slidegate/slidegate/pgstore"
	"github.com/slidegate/slidegate/rule"
	"github.com/slidegate/slidegate/store"
	"github.com/slidegate/slidegate/test/history"
	"github.com/slidegate/slidegate/test/pgtest"
	"github.com/slidegate/slidegate/test/race"
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
		return race.Job(store), err
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

// Of two hundred concurrent requests of four processes for a new key exactly fifty are admitted, every time, at
// PostgreSQL's default isolation level. In half of the rounds there are four keys, and requests are combined.
func TestProcessesAdmitExactlyTheQuota(t *testing.T) {
	t.Parallel()
	server := migrated(t, pgtest.Shared(t), pgstore.Options{})
	processes := workers.Start(t, race.Processes, "race "+server.URL("pool_max_conns=16"))
	race.Exact(t, processes, 28, true)
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
			admitted, err := race.Concurrently(callers, func(i int) (int64, error) {
				user := store.Charge{Limit: narrow, Key: fmt.Sprintf("%s-%d-user-%d", name, round, i%users), Cost: 1}
				if i/users%2 == 0 {
					return race.Take(st, user, tenant)
				}
				return race.Take(st, tenant, user)
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
