package pgstore_test

import (
	"context"
	"fmt"
	"os/exec"
	"strings"
	"sync"
	"testing"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/slidegate/slidegate/pgstore"
	"github.com/slidegate/slidegate/rule"
	"github.com/slidegate/slidegate/store"
	"github.com/slidegate/slidegate/test/pgtest"
	"github.com/slidegate/slidegate/test/porttest"
)

func noError(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

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
		if applied := queryText(t, pool, "SELECT string_agg(version::text, ' ') FROM limits.slidegate_migrations"); applied != "1" {
			t.Errorf("%s: got the versions %s, want 1", level, applied)
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
	noError(t, pgstore.Migrate(t.Context(), owner, opts))
	url := server.Role(t, "reader", "USAGE ON SCHEMA limits", "SELECT ON limits.slidegate_migrations")
	reader := pgtest.Pool(t, url)
	if err := pgstore.Migrate(t.Context(), reader, opts); err != nil {
		t.Error(err)
	}
	if err := pgstore.Migrate(t.Context(), reader, pgstore.Options{Schema: "others"}); err == nil || !strings.Contains(err.Error(), "42501") {
		t.Errorf("a role without privileges created a schema: %v", err)
	}
}

// A schema of a later version is an error that names it and says what to do, by both kinds of pools, and is not changed.
func TestMigrateLaterVersion(t *testing.T) {
	t.Parallel()
	server := pgtest.Shared(t)
	pool := server.Pool(t)
	noError(t, pgstore.Migrate(t.Context(), pool, pgstore.Options{}))
	server.Exec("INSERT INTO slidegate_migrations (version) VALUES (7)")
	server.Exec("DROP FUNCTION slidegate_random_address")
	err := pgstore.Migrate(t.Context(), pool, pgstore.Options{})
	if err == nil || !strings.HasPrefix(err.Error(), "pgstore: migrate: ") || !strings.Contains(err.Error(), "upgrade this program") ||
		!strings.Contains(err.Error(), "version 7") {
		t.Errorf("got error %v, want one that says to upgrade because of version 7", err)
	}
	if n := queryNumber(t, pool, "SELECT count(*) FROM pg_proc WHERE proname = 'slidegate_random_address'"); n != 0 {
		t.Error("a schema of a later version was changed")
	}
}

// A migration that fails leaves nothing behind. Here other objects have the names of the table and of a type.
func TestFailedMigrateLeavesNothing(t *testing.T) {
	t.Parallel()
	for _, statement := range []string{"CREATE TABLE slidegate_state (id int)", "CREATE TYPE slidegate_item AS (a int)"} {
		server := pgtest.Shared(t)
		pool := server.Pool(t)
		server.Exec(statement)
		if err := pgstore.Migrate(t.Context(), pool, pgstore.Options{}); err == nil || !strings.Contains(err.Error(), "already exists") {
			t.Errorf("%s: got error %v", statement, err)
		}
		if n := queryNumber(t, pool, "SELECT count(*) FROM pg_class WHERE relname LIKE 'slidegate%'"); n != 1 {
			t.Errorf("%s: got %d objects, want only that one", statement, n)
		}
	}
}

func psql(t *testing.T, url, script string) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "psql", "--no-psqlrc", "--quiet", "--dbname", url)
	cmd.Stdin = strings.NewReader(script)
	if printed, err := cmd.CombinedOutput(); err != nil || strings.Contains(string(printed), "ERROR") {
		t.Fatalf("psql: %v\n%s", err, printed)
	}
}

// From an empty database, in a schema that does not exist, psql creates everything, does nothing the second time, drops everything and
// creates it again; the store decides, and Migrate has nothing left to do. Limiters with other prefixes share the database.
func TestSchemaByHand(t *testing.T) {
	t.Parallel()
	for i, opts := range []pgstore.Options{
		{},
		{Schema: "rl", Prefix: "sg_"},
		{Schema: "Rate-Limits;--/*%s", Prefix: "_", Unlogged: true}, // names that could break the statements
		{Schema: "select", Prefix: "user_2_"},
	} {
		t.Run(fmt.Sprint(i), func(t *testing.T) {
			t.Parallel()
			server := pgtest.Shared(t)
			pool := server.Pool(t)
			create, drop, err := pgstore.Schema(opts)
			noError(t, err)
			other := opts
			other.Prefix = "other_"
			noError(t, pgstore.Migrate(t.Context(), pool, other))
			for range 2 {
				psql(t, server.URL(), create)
				psql(t, server.URL(), create)
				checkDecides(t, pool, opts)
				checkNothingToMigrate(t, server, opts)
				psql(t, server.URL(), drop)
				checkNothingLeft(t, pool, opts)
			}
			checkDecides(t, pool, other)
			if got, want := persistence(t, pool, "other_state"), map[bool]string{false: "p", true: "u"}[opts.Unlogged]; got != want {
				t.Errorf("got a table of kind %s, want %s", got, want)
			}
			if got := persistence(t, pool, "other_documents"); got != "p" {
				t.Errorf("got documents of kind %s, want them logged", got)
			}
		})
	}
}

// persistence returns p for a logged table, u for an unlogged one.
func persistence(t *testing.T, pool *pgxpool.Pool, table string) string {
	t.Helper()
	return queryText(t, pool, "SELECT relpersistence::text FROM pg_class WHERE relname = $1", table)
}

// checkDecides checks that a store decides, by each of its functions, and expires.
func checkDecides(t *testing.T, pool *pgxpool.Pool, opts pgstore.Options) {
	t.Helper()
	st := newStore(t, pool, opts)
	for _, limit := range porttest.Kinds() {
		charge := store.Charge{Limit: bind(t, "", limit), Cost: 1}
		if got := apply(t, st, rule.Take, charge); !got.Allowed {
			t.Errorf("%v: the first unit was refused", limit)
		}
		apply(t, st, rule.Reset, charge)
	}
	if _, err := st.Expire(t.Context()); err != nil {
		t.Error(err)
	}
}

// checkNothingToMigrate checks that a role that may only read what was applied can call Migrate.
func checkNothingToMigrate(t *testing.T, server *pgtest.Server, opts pgstore.Options) {
	t.Helper()
	schema, prefix := schemaAndPrefix(opts)
	reader := pgtest.Pool(t, server.Role(t, "reader", "USAGE ON SCHEMA "+schema, "SELECT ON "+schema+"."+prefix+"migrations"))
	if err := pgstore.Migrate(t.Context(), reader, opts); err != nil {
		t.Errorf("Migrate after psql: %v", err)
	}
}

// checkNothingLeft checks that nothing of ours is left in a schema.
func checkNothingLeft(t *testing.T, pool *pgxpool.Pool, opts pgstore.Options) {
	t.Helper()
	schema, prefix := schemaAndPrefix(opts)
	for _, kind := range []struct{ catalog, name string }{{"class", "rel"}, {"proc", "pro"}, {"type", "typ"}} {
		if n := queryNumber(t, pool, fmt.Sprintf("SELECT count(*) FROM pg_%s WHERE starts_with(%sname, $1) AND NOT starts_with(%[2]sname, '_other') "+
			"AND %[2]snamespace = to_regnamespace($2)", kind.catalog, kind.name), prefix, schema); n != 0 {
			t.Errorf("got %d of pg_%s left", n, kind.catalog)
		}
	}
}

// schemaAndPrefix returns the schema, quoted for a statement, and the prefix.
func schemaAndPrefix(opts pgstore.Options) (schema, prefix string) {
	schema, prefix = `"`+opts.Schema+`"`, opts.Prefix
	if opts.Schema == "" {
		schema = "public"
	}
	if prefix == "" {
		prefix = "slidegate_"
	}
	return schema, prefix
}
