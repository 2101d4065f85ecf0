package pgstore_test

import (
	"fmt"
	"regexp"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/slidegate/slidegate/pgstore"
	"github.com/slidegate/slidegate/rule"
	"github.com/slidegate/slidegate/store"
	"github.com/slidegate/slidegate/test/formats"
)

// What a newer version has written is an error, and left as it is. TestOtherFormat has other paths, and batches.
func TestRejectsNewerFormats(t *testing.T) {
	t.Parallel()
	previous := regexp.MustCompile(`"previous":-?\d+`)
	formats.CheckNewer(t, tables{database(t, pgstore.Options{})}, func(line string) string {
		return previous.ReplaceAllString(line, fmt.Sprintf(`"previous":-%d`, formats.Newer))
	})
}

// tables is a database as lines: its rows as JSON. Versions of rows begin anywhere.
type tables struct{ pool *pgxpool.Pool }

const columns = "1 AS version, expires, start, current, previous, address, more, holds"

func (p tables) Clear(t testing.TB) {
	_, err := p.pool.Exec(t.Context(), "TRUNCATE slidegate_state")
	if err != nil {
		t.Fatal(err)
	}
}

func (p tables) Open(t testing.TB, now func() rule.Micros) store.Store {
	return newStore(t, p.pool, pgstore.Options{Now: now})
}

func (p tables) Dump(t testing.TB) (lines []string) {
	rows := queryText(t, p.pool, "SELECT coalesce(string_agg(row_to_json(r)::text, E'\\n' ORDER BY row_to_json(r)::text), '') FROM (SELECT "+columns+" FROM slidegate_state) r")
	for row := range strings.Lines(rows) {
		lines = append(lines, strings.TrimSuffix(row, "\n"))
	}
	return lines
}

func (p tables) Load(t testing.TB, lines []string) {
	for _, row := range lines {
		if _, err := p.pool.Exec(t.Context(), "INSERT INTO slidegate_state SELECT * FROM json_populate_record(NULL::slidegate_state, $1)", row); err != nil {
			t.Fatal(err)
		}
	}
}
