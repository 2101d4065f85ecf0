package worstcase

import (
	"flag"
	"os"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "write the tables to the documentation")

// The table is in the documentation between these two lines.
const (
	document   = "../../docs/worst-cases.md"
	tableBegin = "<!-- The table is written by: go test ./test/worstcase -update -->\n"
	tableEnd   = "<!-- The table ends here. -->\n"
)

// The table of shares is between these two.
const (
	sharesBegin = "<!-- The shares are written by: go test ./test/worstcase -update -->\n"
	sharesEnd   = "<!-- The shares end here. -->\n"
)

// The table of leases is between these two.
const (
	leasesBegin = "<!-- The table of leases is written by: go test ./test/worstcase -update -->\n"
	leasesEnd   = "<!-- The table of leases ends here. -->\n"
)

// The table of the default is between these two.
const (
	defaultBegin = "<!-- The table of the default is written by: go test ./test/worstcase -update -->\n"
	defaultEnd   = "<!-- The table of the default ends here. -->\n"
)

// TestDocumentedTable compares the documentation with the results of the search.
func TestDocumentedTable(t *testing.T) { checkDocumented(t, tableBegin, tableEnd, Table(found())) }

// TestDocumentedShares compares the documentation with what an obedient client gets.
func TestDocumentedShares(t *testing.T) { checkDocumented(t, sharesBegin, sharesEnd, ObedientTable()) }

// TestDocumentedLeases compares the documentation with the results of the search with leases.
func TestDocumentedLeases(t *testing.T) {
	checkDocumented(t, leasesBegin, leasesEnd, LeasedTable(foundLeased()))
}

// TestDocumentedDefault compares the documentation with the results of the search in the default.
func TestDocumentedDefault(t *testing.T) {
	checkDocumented(t, defaultBegin, defaultEnd, DefaultTable(foundDefault()))
}

// checkDocumented compares a part of the documentation with a table, or writes it.
func checkDocumented(t *testing.T, begin, end, table string) {
	t.Helper()
	text, err := os.ReadFile(document)
	if err != nil {
		t.Fatal(err)
	}
	before, rest, foundBegin := strings.Cut(string(text), begin)
	written, after, foundEnd := strings.Cut(rest, end)
	if !foundBegin || !foundEnd {
		t.Fatalf("%s: the lines around the table are missing", document)
	}
	if written == table {
		return
	}
	if !*update {
		t.Fatalf("%s: the table differs from the results; go test ./test/worstcase -update writes it:\n%s", document, table)
	}
	if err := os.WriteFile(document, []byte(before+begin+table+end+after), 0o644); err != nil {
		t.Fatal(err)
	}
}
