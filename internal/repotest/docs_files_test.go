package repotest_test

import (
	"os"
	"path/filepath"
	"regexp"
	"testing"
)

// shownFile matches a Go block of a page below a comment with the name of the file that it shows.
var shownFile = regexp.MustCompile("(?s)<!-- file: (\\S+) -->\n```go\n(.*?)```\n")

// TestPagesShowFilesAsTheyAre checks that files shown on pages are shown unchanged.
func TestPagesShowFilesAsTheyAre(t *testing.T) {
	pages, err := filepath.Glob("docs/*.md")
	if err != nil {
		t.Fatal(err)
	}
	shown := 0
	for _, page := range append(pages, "README.md") {
		text, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		for _, match := range shownFile.FindAllSubmatch(text, -1) {
			shown++
			file, err := os.ReadFile(string(match[1]))
			if err != nil {
				t.Errorf("%s: %v", page, err)
			} else if string(file) != string(match[2]) {
				t.Errorf("%s does not show %s as it is; copy the file into the page", page, match[1])
			}
		}
	}
	if shown < 5 {
		t.Errorf("found %d files in the pages, want at least 5: the test does not parse the pages correctly", shown)
	}
}
