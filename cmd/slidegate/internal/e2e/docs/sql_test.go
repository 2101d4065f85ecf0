package docs

import (
	"net/url"
	"regexp"
	"testing"

	"github.com/slidegate/slidegate/cmd/slidegate/internal/testkit"
	"github.com/slidegate/slidegate/pgstore"
	"github.com/slidegate/slidegate/test/pgtest"
)

// TestSQL runs the SQL of the pages in PostgreSQL, after the migrations. Each page has a database and a role shop of its own.
func TestSQL(t *testing.T) {
	problems, count := checkSQL(t, readPages(t))
	report(t, problems)
	t.Logf("%d blocks", count)
}

var shop = regexp.MustCompile(`\bshop\b`)

func checkSQL(t *testing.T, pages []*page) (problems []problem, count int) {
	t.Helper()
	for _, p := range pages {
		var run func(sql string) error
		for _, b := range p.blocks {
			if b.language != "sql" {
				continue
			}
			count++
			if run == nil {
				run = newDatabase(t)
			}
			if err := run(b.code); err != nil {
				problems = append(problems, p.problemf(b.line, "PostgreSQL rejects this: %v", err))
			}
		}
	}
	return problems, count
}

// newDatabase returns a function that runs statements in a new database with this project's tables.
func newDatabase(t *testing.T) func(sql string) error {
	t.Helper()
	server := pgtest.Shared(t)
	role, err := url.Parse(server.Role(t, "shop"))
	testkit.NoError(t, err)
	pool := server.Pool(t)
	testkit.NoError(t, pgstore.Migrate(t.Context(), pool, pgstore.Options{}))
	return func(sql string) error {
		connection, err := pool.Acquire(t.Context())
		testkit.NoError(t, err)
		defer connection.Release()
		_, err = connection.Conn().PgConn().Exec(t.Context(), shop.ReplaceAllString(sql, role.User.Username())).ReadAll()
		return err
	}
}
