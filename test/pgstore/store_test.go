package pgstore_test

import (
	"testing"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/slidegate/slidegate/pgstore"
	"github.com/slidegate/slidegate/store"
	"github.com/slidegate/slidegate/storetest"
	"github.com/slidegate/slidegate/test/kit"
	"github.com/slidegate/slidegate/test/pgtest"
	"github.com/slidegate/slidegate/test/porttest"
)

// database returns a pool of a database of the test, with the schema in it.
func database(t testing.TB, opts pgstore.Options, params ...string) *pgxpool.Pool {
	t.Helper()
	pool := pgtest.Shared(t).Pool(t, params...)
	if err := pgstore.Migrate(t.Context(), pool, opts); err != nil {
		t.Fatal(err)
	}
	return pool
}

// newStore is New for valid options.
func newStore(t testing.TB, pool *pgxpool.Pool, opts pgstore.Options) *pgstore.Store {
	t.Helper()
	return kit.Must(pgstore.New(pool, opts))(t)
}

var bind = porttest.Bind

func TestStore(t *testing.T) {
	t.Parallel()
	pool := database(t, pgstore.Options{})
	storetest.RunWith(t, func(t testing.TB, clock *storetest.Clock) store.Store {
		t.Helper()
		return newStore(t, pool, pgstore.Options{Now: clock.Now})
	}, storetest.Options{Short: true}) // TestFunctionsMatchTheRule and TestFastPathsMatchTheRule compare more
}
