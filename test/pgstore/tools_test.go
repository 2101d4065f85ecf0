package pgstore_test

import (
	"context"
	"database/sql"
	"fmt"
	"io/fs"
	"os/exec"
	"strings"
	"sync"
	"testing"

	"github.com/golang-migrate/migrate/v4"
	pgxmigrate "github.com/golang-migrate/migrate/v4/database/pgx/v5"
	"github.com/golang-migrate/migrate/v4/source/iofs"
	"github.com/jackc/pgx/v5/pgxpool"
	_ "github.com/jackc/pgx/v5/stdlib"
	"github.com/pressly/goose/v3"

	"github.com/slidegate/slidegate/pgstore"
	"github.com/slidegate/slidegate/rule"
	"github.com/slidegate/slidegate/store"
	"github.com/slidegate/slidegate/test/kit"
	"github.com/slidegate/slidegate/test/pgtest"
	"github.com/slidegate/slidegate/test/porttest"
)

// applier is a tool that applies migrations to a database. It applies all steps, or undoes all of them.
type applier struct {
	name     string
	up, down func(t *testing.T, url string, opts pgstore.Options, first int64)
}

// appliers are the tools for which MigrationFiles has a format.
var appliers = []applier{
	{
		"goose",
		func(t *testing.T, url string, opts pgstore.Options, first int64) {
			_, err := gooseFor(t, url, opts, first).Up(t.Context())
			noError(t, err)
		},
		func(t *testing.T, url string, opts pgstore.Options, first int64) {
			_, err := gooseFor(t, url, opts, first).DownTo(t.Context(), 0)
			noError(t, err)
		},
	}, {
		"golang-migrate",
		func(t *testing.T, url string, opts pgstore.Options, first int64) {
			noError(t, golangMigrateFor(t, url, opts, first).Up())
		},
		func(t *testing.T, url string, opts pgstore.Options, first int64) {
			noError(t, golangMigrateFor(t, url, opts, first).Down())
		},
	}, {
		"psql",
		func(t *testing.T, url string, opts pgstore.Options, _ int64) { psql(t, url, opts, "slidegate.up.sql") },
		func(t *testing.T, url string, opts pgstore.Options, _ int64) {
			psql(t, url, opts, "slidegate.down.sql")
		},
	},
}

func noError(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func files(t *testing.T, opts pgstore.Options, tool pgstore.Tool, first int64) fs.FS {
	t.Helper()
	return kit.Must(pgstore.MigrationFiles(opts, tool, first))(t)
}

func openSQL(t *testing.T, url string) *sql.DB {
	t.Helper()
	db := kit.Must(sql.Open("pgx", url))(t)
	t.Cleanup(func() { db.Close() })
	return db
}

func gooseFor(t *testing.T, url string, opts pgstore.Options, first int64) *goose.Provider {
	t.Helper()
	return kit.Must(goose.NewProvider(goose.DialectPostgres, openSQL(t, url), files(t, opts, pgstore.Goose, first)))(t)
}

func golangMigrateFor(t *testing.T, url string, opts pgstore.Options, first int64) *migrate.Migrate {
	t.Helper()
	source := kit.Must(iofs.New(files(t, opts, pgstore.GolangMigrate, first), "."))(t)
	target := kit.Must(pgxmigrate.WithInstance(openSQL(t, url), &pgxmigrate.Config{}))(t)
	m := kit.Must(migrate.NewWithInstance("iofs", source, "pgx5", target))(t)
	t.Cleanup(func() { m.Close() })
	return m
}

func psql(t *testing.T, url string, opts pgstore.Options, file string) {
	t.Helper()
	script := kit.Must(fs.ReadFile(files(t, opts, pgstore.Psql, 0), file))(t)
	cmd := exec.CommandContext(t.Context(), "psql", "--no-psqlrc", "--quiet", "--dbname", url)
	cmd.Stdin = strings.NewReader(string(script))
	if printed, err := cmd.CombinedOutput(); err != nil || strings.Contains(string(printed), "ERROR") {
		t.Fatalf("psql: %v\n%s", err, printed)
	}
}

// oddOptions have names that a tool could get wrong, and the default ones.
var oddOptions = []pgstore.Options{
	{},
	{Schema: "rl", Prefix: "sg_"},
	{Schema: "Rate-Limits;--/*%s", Prefix: "_", Durability: pgstore.Unlogged},
	{Schema: "select", Prefix: "user_2_"},
}

// From an empty database, in a schema that does not exist, each tool applies all steps, undoes them and applies them
// again; the store decides, and Migrate has nothing left to do.
func TestToolsFromEmpty(t *testing.T) {
	t.Parallel()
	for n, tool := range appliers {
		for i, opts := range oddOptions {
			if n > 0 && i%2 == 1 {
				continue // the statements are the same for all tools; these names stand for those
			}
			t.Run(fmt.Sprintf("%s %d", tool.name, i), func(t *testing.T) {
				t.Parallel()
				server := pgtest.Shared(t)
				pool := server.Pool(t)
				first := int64(i) * 20260101000000 // also with version numbers like those of a directory with other migrations
				tool.up(t, server.URL(), opts, first)
				checkDecides(t, pool, opts)
				checkNothingToMigrate(t, server, opts)
				tool.down(t, server.URL(), opts, first)
				checkNothingLeft(t, pool, opts)
				tool.up(t, server.URL(), opts, first)
				checkNothingToMigrate(t, server, opts)
				checkDecides(t, server.Pool(t), opts)
			})
		}
	}
}

// checkDecides checks that a store decides, by each of its functions, and expires.
func checkDecides(t *testing.T, pool *pgxpool.Pool, opts pgstore.Options) {
	t.Helper()
	st := newStore(t, pool, opts)
	for _, limit := range porttest.Kinds() {
		charge := store.Charge{Limit: bind(t, "", limit), Cost: 1}
		if got := apply(t, st, rule.Take, charge); !got.Allowed {
			t.Errorf("%v: the first unit was denied", limit)
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
		t.Errorf("Migrate after a tool: %v", err)
	}
}

// checkNothingLeft checks that nothing of ours is left in a schema, nor the schema if a migration created it.
func checkNothingLeft(t *testing.T, pool *pgxpool.Pool, opts pgstore.Options) {
	t.Helper()
	_, prefix := schemaAndPrefix(opts)
	for _, kind := range []struct{ catalog, name string }{{"class", "rel"}, {"proc", "pro"}, {"type", "typ"}} {
		if n := queryNumber(t, pool, fmt.Sprintf("SELECT count(*) FROM pg_%s WHERE starts_with(%sname, $1) AND %[2]snamespace = to_regnamespace($2)",
			kind.catalog, kind.name), prefix, `"`+opts.Schema+`"`); n != 0 {
			t.Errorf("got %d of pg_%s left", n, kind.catalog)
		}
	}
	if n := queryNumber(t, pool, "SELECT count(*) FROM pg_namespace WHERE nspname = $1", opts.Schema); n != 0 {
		t.Errorf("the schema %s is left", opts.Schema)
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

// Each tool continues from the schema that Migrate created.
func TestToolsAfterMigrate(t *testing.T) {
	t.Parallel()
	for _, tool := range appliers {
		server := pgtest.Shared(t)
		pool := server.Pool(t)
		opts := pgstore.Options{Schema: "rl"}
		noError(t, pgstore.Migrate(t.Context(), pool, opts))
		charge := store.Charge{Limit: bind(t, "", porttest.Kinds()[0]), Cost: 1}
		before := apply(t, newStore(t, pool, opts), rule.Take, charge)
		tool.up(t, server.URL(), opts, 0)
		if after := apply(t, newStore(t, pool, opts), rule.Peek, charge); after.Remaining != before.Remaining {
			t.Errorf("%s: got %d units remaining, want the %d from before", tool.name, after.Remaining, before.Remaining)
		}
		tool.down(t, server.URL(), opts, 0)
		checkNothingLeft(t, pool, opts)
	}
}

// Migrate continues where a tool stopped, however many processes call it, and the tool continues after that.
func TestMigrateContinuesAfterATool(t *testing.T) {
	t.Parallel()
	opts := pgstore.Options{Schema: "rl", Prefix: "sg_"}
	steps := kit.Must(pgstore.Migrations(opts))(t)
	for recorded, stops := range map[bool][]int{
		true:  {0, 1, 3, len(steps) - 1, len(steps)},
		false: {1, 3}, // the steps were copied without their records
	} {
		for _, n := range stops {
			server := pgtest.Shared(t)
			pool := server.Pool(t)
			tool := gooseFor(t, server.URL(), opts, 0)
			if n > 0 {
				_, err := tool.UpTo(t.Context(), int64(n))
				noError(t, err)
				if !recorded {
					server.Exec("DROP TABLE rl.sg_migrations")
				}
			}
			var all sync.WaitGroup
			for range 3 {
				all.Go(func() {
					if err := pgstore.Migrate(context.Background(), pool, opts); err != nil {
						t.Errorf("after %d steps, recorded %v: %v", n, recorded, err)
					}
				})
			}
			all.Wait()
			checkDecides(t, pool, opts)
			_, err := tool.Up(t.Context())
			noError(t, err)
			checkDecides(t, server.Pool(t), opts)
		}
	}
}

// Other objects of a schema stay when the steps are undone, and so does a schema that existed before.
func TestDownKeepsOtherObjects(t *testing.T) {
	t.Parallel()
	server := pgtest.Shared(t)
	pool := server.Pool(t)
	one, two := pgstore.Options{Schema: "rl", Prefix: "a_"}, pgstore.Options{Schema: "rl", Prefix: "b_"}
	appliers[2].up(t, server.URL(), one, 0)
	appliers[2].up(t, server.URL(), two, 0)
	appliers[2].down(t, server.URL(), one, 0)
	checkDecides(t, pool, two)
	appliers[2].down(t, server.URL(), two, 0)
	checkNothingLeft(t, pool, two)
	server.Exec("CREATE SCHEMA rl")
	appliers[2].up(t, server.URL(), one, 0)
	appliers[2].down(t, server.URL(), one, 0)
	if n := queryNumber(t, pool, "SELECT count(*) FROM pg_namespace WHERE nspname = 'rl'"); n != 1 {
		t.Error("a schema that existed before the migrations is gone")
	}
}

// A foreign table of the same name is an error, not a schema that fails later.
func TestMigrateForeignTable(t *testing.T) {
	t.Parallel()
	server := pgtest.Shared(t)
	server.Exec("CREATE TABLE slidegate_state (id int)")
	if err := pgstore.Migrate(t.Context(), server.Pool(t), pgstore.Options{}); err == nil || !strings.Contains(err.Error(), "step 1, state") {
		t.Errorf("got error %v", err)
	}
}
