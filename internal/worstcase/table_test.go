package worstcase

import (
	"flag"
	"os"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "write the table that was found into the documentation")

// The table stands in the documentation between these two lines.
const (
	document   = "../../docs/guarantees.md"
	tableBegin = "<!-- The table is written by: go test ./internal/worstcase -update -->\n"
	tableEnd   = "<!-- The table ends here. -->\n"
)

// TestDocumentedTable holds the documentation to what the search finds.
func TestDocumentedTable(t *testing.T) {
	text, err := os.ReadFile(document)
	if err != nil {
		t.Fatal(err)
	}
	before, rest, foundBegin := strings.Cut(string(text), tableBegin)
	documented, after, foundEnd := strings.Cut(rest, tableEnd)
	if !foundBegin || !foundEnd {
		t.Fatalf("%s: the lines are missing that the table stands between", document)
	}
	table := Table(found())
	if documented == table {
		return
	}
	if !*update {
		t.Fatalf("%s: the table differs from what the search finds; go test ./internal/worstcase -update writes it:\n%s",
			document, table)
	}
	if err := os.WriteFile(document, []byte(before+tableBegin+table+tableEnd+after), 0o644); err != nil {
		t.Fatal(err)
	}
}
