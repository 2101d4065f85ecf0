package pgstore_test

import (
	"context"
	"strings"
	"sync"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/slidegate/slidegate/pgstore"
	"github.com/slidegate/slidegate/rule"
	"github.com/slidegate/slidegate/store"
	"github.com/slidegate/slidegate/test/pgtest"
	"github.com/slidegate/slidegate/test/porttest"
)

// Ten processes that start concurrently migrate once, whatever their isolation level.
func TestConcurrentMigrateRunsOnce(t *testing.T) {
	t.Parallel()
	for _, level := range []string{"read committed", "serializable"} {
		server := pgtest.Shared(t)
		opts := pgstore.Options{Schema: "limits"}
		var all sync.WaitGroup
		for range 10 {
			pool := server.Pool(t, "default_transaction_isolation="+level, "pool_max_conns=1")
			all.Go(func() {
				if err := pgstore.Migrate(context.Background(), pool, opts); err != nil {
					t.Errorf("Migrate at %s: %v", level, err)
				}
			})
		}
		all.Wait()
		pool := server.Pool(t)
		steps, err := pgstore.Migrations(opts)
		if err != nil {
			t.Fatal(err)
		}
		applied := queryNumber(t, pool, "SELECT count(*) FROM limits.slidegate_migrations")
		if applied != int64(len(steps)) || steps[len(steps)-1].Version != len(steps) {
			t.Errorf("%s: got %d of %d steps applied", level, applied, len(steps))
		}
		apply(t, newStore(t, pool, opts), rule.Take, store.Charge{Limit: bind(t, "", porttest.Kinds()[0]), Cost: 1})
	}
}

// A role that may not create anything may call Migrate once there is nothing to do.
func TestMigrateAgainNeedsNoPrivileges(t *testing.T) {
	t.Parallel()
	server := pgtest.Shared(t)
	owner := server.Pool(t)
	opts := pgstore.Options{Schema: "limits"}
	if err := pgstore.Migrate(t.Context(), owner, opts); err != nil {
		t.Fatal(err)
	}
	url := server.Role(t, "reader", "USAGE ON SCHEMA limits", "SELECT ON limits.slidegate_migrations")
	reader := pgtest.Pool(t, url)
	if err := pgstore.Migrate(t.Context(), reader, opts); err != nil {
		t.Error(err)
	}
	if err := pgstore.Migrate(t.Context(), reader, pgstore.Options{Schema: "others"}); err == nil || !strings.Contains(err.Error(), "42501") {
		t.Errorf("a role without privileges created a schema: %v", err)
	}
}

// The steps can be applied by hand, each as a script, and several limiters can share a database.
func TestMigrationsByHand(t *testing.T) {
	t.Parallel()
	pool := pgtest.Shared(t).Pool(t)
	for _, opts := range []pgstore.Options{{}, {Prefix: "b_", Durability: pgstore.Unlogged}} {
		steps, err := pgstore.Migrations(opts)
		if err != nil {
			t.Fatal(err)
		}
		for i, step := range steps {
			if step.Version != i+1 || step.Name == "" {
				t.Errorf("step %d: got %d, %q, want version %d with a name", i, step.Version, step.Name, i+1)
			}
			for _, left := range []string{"\r", "{prefix}", "{schema}", "{unlogged}"} {
				if strings.Contains(step.Up, left) {
					t.Errorf("step %d contains %q, want it replaced", i, left)
				}
			}
			if _, err := pool.Exec(t.Context(), step.Up, pgx.QueryExecModeSimpleProtocol); err != nil {
				t.Fatalf("step %d: %v", step.Version, err)
			}
		}
		exercise(t, func(with pgstore.Options) *pgstore.Store {
			with.Prefix = opts.Prefix
			return newStore(t, pool, with)
		})
	}
	if both := persistence(t, pool, "slidegate_state") + persistence(t, pool, "b_state"); both != "pu" {
		t.Errorf("got tables %q", both)
	}
}

// persistence returns p for a logged table, u for an unlogged one.
func persistence(t *testing.T, pool *pgxpool.Pool, table string) string {
	t.Helper()
	return queryText(t, pool, "SELECT relpersistence::text FROM pg_class WHERE relname = $1", table)
}

// An interrupted migration leaves nothing behind.
func TestInterruptedMigrateLeavesNothing(t *testing.T) {
	t.Parallel()
	pool := pgtest.Shared(t).Pool(t)
	if _, err := pool.Exec(t.Context(), "CREATE TYPE slidegate_item AS (a int)"); err != nil { // makes a later step fail
		t.Fatal(err)
	}
	err := pgstore.Migrate(t.Context(), pool, pgstore.Options{})
	if err == nil || !strings.HasPrefix(err.Error(), "pgstore: migrate: step 3, rule: ") {
		t.Errorf("got error %v", err)
	}
	if n := queryNumber(t, pool, "SELECT count(*) FROM pg_class WHERE relname LIKE 'slidegate%' AND relkind = 'r'"); n != 0 {
		t.Errorf("got %d tables left", n)
	}
}
