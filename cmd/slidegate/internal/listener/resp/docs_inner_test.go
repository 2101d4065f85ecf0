package resp

import (
	"os"
	"strings"
	"testing"
)

// The page lists the commands of the table, and no others.
func TestPageListsTheCommands(t *testing.T) {
	text, err := os.ReadFile("../../../../../docs/resp.md")
	if err != nil {
		t.Fatal(err)
	}
	page, rows := string(text), 0
	for _, cmd := range commandTable() {
		want := "`" + strings.ToUpper(cmd.name)
		if strings.Contains(cmd.name, ".") { // not one of Redis
			want = "| " + want
			rows++
		}
		if !strings.Contains(page, want) {
			t.Errorf("docs/resp.md lacks %s", want)
		}
	}
	if got := strings.Count(page, "\n| `SG.") + strings.Count(page, "\n| `CL."); got != rows {
		t.Errorf("docs/resp.md lists %d commands, want %d", got, rows)
	}
}
