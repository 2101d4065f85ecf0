package repotest_test

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/slidegate/slidegate/rule"
)

// place matches a file in the first column of a table.
var place = regexp.MustCompile("`([^`]+\\.(?:go|lua|sql|json|md))`")

// TestPlacesOfAlgorithms compares docs/adding.md with the files that know all algorithms.
func TestPlacesOfAlgorithms(t *testing.T) {
	page, err := os.ReadFile("docs/adding.md")
	if err != nil {
		t.Fatal(err)
	}
	_, section, _ := strings.Cut(string(page), "## An algorithm\n")
	section, _, _ = strings.Cut(section, "\n## ")
	var named []string
	for line := range strings.Lines(section) {
		if cells := strings.Split(line, "|"); len(cells) > 2 {
			for _, m := range place.FindAllStringSubmatch(cells[1], -1) {
				named = append(named, m[1])
			}
		}
	}
	if len(named) < 10 {
		t.Fatalf("found the places %v: the test does not parse the page correctly", named)
	}
	for _, file := range named {
		if missing := missingAlgorithms(t, file); len(missing) > 0 {
			t.Errorf("docs/adding.md names %s, which does not know %v", file, missing)
		}
	}
	for _, pattern := range []string{"*.go", "*/*.go", "*/*/*.go", "*/*/*/*/*/*.go", "*/*.lua", "*/*/*.sql", "config/*.json", "docs/*.md"} {
		found, err := filepath.Glob(pattern)
		if err != nil {
			t.Fatal(err)
		}
		for _, file := range found {
			product := !strings.HasSuffix(file, "_test.go") && !strings.HasPrefix(file, "bench/") && file != "docs/adding.md"
			if product && !slices.Contains(named, file) && len(missingAlgorithms(t, file)) == 0 {
				t.Errorf("%s knows all algorithms, but docs/adding.md does not name it", file)
			}
		}
	}
}

// missingAlgorithms returns the algorithms that a file names neither as users do nor by their constants.
func missingAlgorithms(t *testing.T, file string) (missing []string) {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	for _, a := range rule.Algorithms {
		var constant string
		for word := range strings.SplitSeq(a.String(), "-") {
			constant += strings.ToUpper(word[:1]) + word[1:]
		}
		if !strings.Contains(string(text), a.String()) && !strings.Contains(string(text), constant) {
			missing = append(missing, a.String())
		}
	}
	return missing
}
