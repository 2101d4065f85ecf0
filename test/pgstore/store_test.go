package pgstore_test

import (
	"testing"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/slidegate/slidegate"
	"github.com/slidegate/slidegate/pgstore"
	"github.com/slidegate/slidegate/store"
	"github.com/slidegate/slidegate/storetest"
	"github.com/slidegate/slidegate/test/pgtest"
	"github.com/slidegate/slidegate/test/porttest"
)

// database returns a pool of a database of the test's own, with the schema in it.
func database(t testing.TB, opts pgstore.Options, params ...string) *pgxpool.Pool {
	t.Helper()
	pool := pgtest.Shared(t).Pool(t, params...)
	if err := pgstore.Migrate(t.Context(), pool, opts); err != nil {
		t.Fatal(err)
	}
	return pool
}

// newStore is New for options that are right.
func newStore(t testing.TB, pool *pgxpool.Pool, opts pgstore.Options) *pgstore.Store {
	t.Helper()
	s, err := pgstore.New(pool, opts)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// bind is slidegate.Bind for a limit that is right.
func bind(t testing.TB, namespace string, limit slidegate.Limit) *store.Limit {
	t.Helper()
	return porttest.Bind(t, namespace, limit)
}

func TestStore(t *testing.T) {
	t.Parallel()
	pool := database(t, pgstore.Options{})
	storetest.Run(t, func(t testing.TB, clock *storetest.Clock) store.Store {
		t.Helper()
		return newStore(t, pool, pgstore.Options{Now: clock.Now})
	})
}
