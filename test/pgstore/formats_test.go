package pgstore_test

import (
	"crypto/sha256"
	"fmt"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/slidegate/slidegate/pgstore"
	"github.com/slidegate/slidegate/rule"
	"github.com/slidegate/slidegate/store"
	"github.com/slidegate/slidegate/test/formats"
)

// What a released version has written to PostgreSQL is read, and written the same; see package formats.
func TestReadsReleasedFormats(t *testing.T) {
	t.Parallel()
	formats.Check(t, postgresFile, tables{database(t, pgstore.Options{})})
}

const postgresFile = "../formats/testdata/postgres.txt"

// What a newer version has written is an error, and left as it is. TestOtherFormat has other paths, and batches.
func TestRejectsNewerFormats(t *testing.T) {
	t.Parallel()
	previous := regexp.MustCompile(`"previous":-?\d+`)
	formats.CheckNewer(t, postgresFile, tables{database(t, pgstore.Options{})}, func(line string) string {
		return previous.ReplaceAllString(line, fmt.Sprintf(`"previous":-%d`, formats.Newer))
	})
}

// tables is a database as lines: the name of a table, and a row as JSON. Versions of rows begin anywhere, and revisions are random.
type tables struct{ pool *pgxpool.Pool }

// columns are those of each table, with something fixed in place of what is random.
var columns = map[string]string{
	"slidegate_state":     "1 AS version, expires, start, current, previous, address, more, holds",
	"slidegate_documents": "name, 7 AS revision, text",
}

func (p tables) Clear(t testing.TB) {
	_, err := p.pool.Exec(t.Context(), "TRUNCATE slidegate_state, slidegate_documents")
	if err != nil {
		t.Fatal(err)
	}
}

func (p tables) Open(t testing.TB, now func() rule.Micros) store.Store {
	return newStore(t, p.pool, pgstore.Options{Now: now})
}

func (p tables) Dump(t testing.TB) (lines []string) {
	for _, table := range []string{"slidegate_state", "slidegate_documents"} {
		rows := queryText(t, p.pool, "SELECT coalesce(string_agg(row_to_json(r)::text, E'\\n' ORDER BY row_to_json(r)::text), '') FROM (SELECT "+columns[table]+" FROM "+table+") r")
		for row := range strings.Lines(rows) {
			lines = append(lines, table+" "+strings.TrimSuffix(row, "\n"))
		}
	}
	return lines
}

func (p tables) Load(t testing.TB, lines []string) {
	for _, line := range lines {
		table, row, _ := strings.Cut(line, " ")
		if columns[table] == "" {
			t.Fatalf("invalid line %s", line)
		}
		_, err := p.pool.Exec(t.Context(), "INSERT INTO "+table+" SELECT * FROM json_populate_record(NULL::"+table+", $1)", row)
		if err != nil {
			t.Fatal(err)
		}
	}
}

// The statements that create a version of the schema never change once they were released: a database that has run them is not
// changed by running them again. The file has a line for each version, with the SHA-256 of its statements.
func TestReleasedSchemaIsUnchanged(t *testing.T) {
	create, _, err := pgstore.Schema(pgstore.Options{})
	if err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile("../formats/testdata/postgres-schema.txt")
	if err != nil {
		t.Fatal(err)
	}
	_, version, _ := strings.Cut(create, "slidegate_migrations (version) VALUES (")
	version, _, _ = strings.Cut(version, ")")
	if want := fmt.Sprintf("%s %x", version, sha256.Sum256([]byte(create))); !strings.Contains("\n"+string(text), "\n"+want+"\n") {
		t.Errorf("the statements of version %s are not those that were released; leave them as they are, and add the change as the next version, "+
			"which brings a database of version %[1]s to it, or, before the release, write this line into the file:\n%s", version, want)
	}
}
