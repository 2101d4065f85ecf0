//go:build unix

package config

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/slidegate/slidegate/internal/yamlfile"
)

// fill repeats text up to this many bytes.
func fill(size int, before, text, after string) string {
	return before + strings.Repeat(text, (size-len(before)-len(after))/len(text)) + after
}

// patterns is a file with the maximum number of overrides, each of which is compared with all before it up to their last bytes,
// several times. An optional key of half a megabyte follows.
func patterns(key bool) string {
	var b strings.Builder
	b.WriteString("policies:\n  a: &a\n    limits: [1/s]\n    overrides:\n")
	for i := range 1000 {
		fmt.Fprintf(&b, "    - {keys: \"%s*%d\", unlimited: true}\n", strings.Repeat("*aaaaaaaaaaaaaaab", 14), 1000+i)
	}
	if key {
		fmt.Fprintf(&b, "    - {key: %s, unlimited: true}\n", strings.Repeat("a", yamlfile.MaxSize/2))
	}
	for i := range 100 {
		fmt.Fprintf(&b, "  p%d: *a\n", i)
	}
	return b.String()
}

// TestLargeFiles has files that are designed to take time or memory. All are rejected quickly; without bounds some of them take
// minutes, or all memory.
func TestLargeFiles(t *testing.T) {
	skipUnderRace(t)
	const large = 3 << 19 // has too many words and signs
	var stairs strings.Builder
	for i := 0; stairs.Len() < yamlfile.MaxSize-8000; i++ {
		stairs.WriteString(strings.Repeat(" ", i) + "a:\n")
	}
	var steps strings.Builder
	for i := 0; steps.Len() < yamlfile.MaxSize-40000; i++ {
		steps.WriteString(strings.Repeat(" ", 64*i) + strings.Repeat("- ", 32) + "\n")
	}
	tests := []struct{ name, text, want string }{
		{"too large", strings.Repeat("#", yamlfile.MaxSize+1), "f:1:1: the file is larger than 8 MB"},
		{"brackets", fill(large, "", "[", ""), "f:1:33: values are nested more than 32 deep"},
		{"braces", fill(large, "", "{a: ", ""), "f:1:129: values are nested more than 32 deep"},
		{"both", fill(large, "", "[{a: ", ""), "f:1:81: values are nested more than 32 deep"},
		{"dashes", fill(large, "", "- ", ""), "f:1:65: values are nested more than 32 deep"},
		{"questions", fill(large, "", "? ", ""), "f:1:65: values are nested more than 32 deep"},
		{"fields", manyLines("policies:\n", "  p%d: {}\n", 1e5), "mappings of more than 10000 fields; split it"},
		{"lines", fill(large, "", "a: b\n", ""), "mappings of more than 10000 fields; split it"},
		{"list", fill(large, "[", "a,", "]"), "words and signs; split it"},
		{"documents", fill(large, "", "---\na\n", ""), "words and signs; split it"},
		{"anchors", fill(large, "", "&a ", ""), "words and signs; split it"},
		{"tags", fill(large, "", "!a ", ""), "words and signs; split it"},
		{"stairs", stairs.String(), `f:1:1: "a" is not a field of the file`},
		{"steps", steps.String(), "f:1:1: the file must be a mapping with policies, not a list"},
		{"fields within bounds", manyLines("", "k%d: v\n", 9_999), `is not a field of the file`},
		{"braces within bounds", "[" + strings.Repeat(strings.Repeat("{a: ", 30)+"1"+strings.Repeat("}", 30)+",", 4_000) + "]", "not a list"},
		{"list within bounds", "[" + strings.Repeat("a,", 249_990) + "]", "not a list"},
		{"one word", fill(large, "", "a", ""), "f:1:1: the file must be a mapping with policies, not \"aaaa"},
		{"one name", fill(large, "policies: {", "a!", ": {limits: [1/s]}}"), `is not a valid name for a policy`},
		{"quotes", fill(large, "\"", "a", ""), "f:1:1: invalid YAML"},
		{"empty lines", fill(large, "", "\n", ""), "f:1:1: the file is empty"},
		{"comments", fill(large, "", "# a comment of some length, as they are\n", ""), "f:1:1: the file is empty"},
		{"spaces", fill(large, "", " ", "x"), "the file must be a mapping with policies"},
		{"literal", fill(large, "policies: |\n", "  a\n", ""), "f:1:11: policies: must be a mapping of names to policies, not"},
		{"bomb", manyLines("policies:\n  a: &a\n    limits: &l [1/s"+strings.Repeat(", 1/s", 2000)+"]\n", "  p%d: {limits: *l}\n", 5000),
			"would share its counts with the one on line 3"},
		{"bomb of fields", manyLines("policies:\n  a: &a {limits: [1/s], "+strings.Repeat("x: 1, ", 2000)+"}\n", "  p%d: *a\n", 5000),
			`is not a field of a policy`},
		{"patterns", patterns(false), "too many overrides to compare with one another"},
		{"patterns and a key", patterns(true), "too many overrides to compare with one another"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			start := processorTime(t)
			_, err := Parse("f", []byte(test.text))
			if err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("got %.300v, want %s", err, test.want)
			}
			if len(fmt.Sprint(err)) > 10_000 {
				t.Errorf("got an error of %d bytes, want a shorter one", len(fmt.Sprint(err)))
			}
			if took := processorTime(t) - start; took > 20*time.Second {
				t.Errorf("got an error after %v, want it sooner", took)
			} else {
				t.Log(took)
			}
		})
	}
}

// TestAliasesAreBounded has a file that is valid except for the number of values that its aliases repeat.
func TestAliasesAreBounded(t *testing.T) {
	limits := "1/1m"
	for i := range 999 {
		limits += fmt.Sprintf(", 1/1m name=n%d", i)
	}
	text := manyLines("policies:\n  a:\n    limits: &l ["+limits+"]\n", "  p%d: {limits: *l}\n", 400)
	if _, err := Parse("f", []byte(text)); err != nil {
		t.Errorf("401 policies of 1000 limits: %v", err)
	}
	text = manyLines("policies:\n  a:\n    limits: &l ["+limits+"]\n", "  p%d: {limits: *l}\n", 600)
	_, err := Parse("f", []byte(text))
	if err == nil || !strings.Contains(err.Error(), "the file has more than 500000 values, with those that aliases repeat; split it") {
		t.Errorf("601 policies of 1000 limits: %v", err)
	}
}

func TestLargestFile(t *testing.T) {
	text := manyLines("policies:\n", "  p%d:\n    limits: [100/1m, 1000/1h]\n", 6000)
	file, err := Parse("f", []byte(text))
	if err != nil || len(file.Policies) != 6000 || file.Policies[5999].Name != "p5999" {
		t.Fatalf("6000 policies: %v", err)
	}
	path := filepath.Join(t.TempDir(), "large.yaml")
	if err := os.WriteFile(path, []byte(fill(yamlfile.MaxSize, text, "#", "")+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Load(Options{}, path); err == nil || !strings.HasSuffix(err.Error(), ":1:1: the file is larger than 8 MB") {
		t.Errorf("a byte too large: %v", err)
	}
	if err := os.WriteFile(path, []byte(fill(yamlfile.MaxSize, text, "#", "")), 0o600); err != nil {
		t.Fatal(err)
	}
	if file, err := Load(Options{}, path); err != nil || len(file.Policies) != 6000 {
		t.Errorf("just not too large: %v", err)
	}
}

// processorTime returns how long this process has computed, which does not depend on how busy the machine is.
func processorTime(t *testing.T) time.Duration {
	t.Helper()
	var usage syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &usage); err != nil {
		t.Fatal(err)
	}
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
}
