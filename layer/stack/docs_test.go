package stack_test

import (
	"os"
	"strings"
	"testing"
)

// TestDocumentedSamples checks that each sample of docs/leases.md occurs, line by line, in the examples, which run.
func TestDocumentedSamples(t *testing.T) {
	page, examples := read(t, "../../docs/leases.md"), withoutIndent(read(t, "example_leases_test.go"))
	samples := strings.Split(page, "```go\n")[1:]
	if len(samples) == 0 {
		t.Fatal("docs/leases.md has no sample")
	}
	for _, sample := range samples {
		sample, _, _ = strings.Cut(sample, "```")
		if !strings.Contains(examples, withoutIndent(sample)) {
			t.Errorf("no example has these lines:\n%s", sample)
		}
	}
}

func read(t *testing.T, file string) string {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func withoutIndent(text string) string {
	lines := strings.Split(text, "\n")
	for i, line := range lines {
		lines[i] = strings.TrimSpace(line)
	}
	return strings.Join(lines, "\n")
}
