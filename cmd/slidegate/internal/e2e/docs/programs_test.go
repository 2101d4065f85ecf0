package docs

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"sync"
	"testing"
)

// TestPrograms checks that a Go program followed by a text block prints that text, and that a Go file with tests or examples passes
// go test. "..." stands for text that differs every time; see matches.
func TestPrograms(t *testing.T) {
	problems, count := checkPrograms(t, readPages(t))
	report(t, problems)
	t.Logf("%d programs", count)
}

func checkPrograms(t *testing.T, pages []*page) (problems []problem, count int) {
	t.Helper()
	var (
		mu      sync.Mutex
		running sync.WaitGroup
		places  = make(chan struct{}, runtime.GOMAXPROCS(0)) // bounds how many programs are built and run at a time
	)
	for _, p := range pages {
		for _, b := range p.blocks {
			run := runnerOf(b)
			if run == nil {
				continue
			}
			count++
			dir := t.TempDir()
			running.Go(func() {
				places <- struct{}{}
				defer func() { <-places }()
				if wrong := run(t.Context(), dir, b); wrong != "" {
					mu.Lock()
					defer mu.Unlock()
					problems = append(problems, p.problemf(b.line, "%s", wrong))
				}
			})
		}
	}
	running.Wait()
	return problems, count
}

// runnerOf returns the function that runs a block, or nil if the block is not run.
func runnerOf(b block) func(ctx context.Context, dir string, b block) string {
	switch {
	case b.language != "go" || !isFile(b.code):
		return nil
	case hasTests.MatchString(b.code):
		return runTests
	case b.output != nil:
		return runProgram
	}
	return nil
}

var hasTests = regexp.MustCompile(`(?m)^func (Test|Example|Benchmark|Fuzz)\w*\(`)

// runTests runs the tests of a block and returns the problem with them, or "".
func runTests(ctx context.Context, dir string, b block) string {
	file := filepath.Join(dir, "sample_test.go")
	if err := os.WriteFile(file, []byte(b.code), 0o600); err != nil {
		return err.Error()
	}
	out, err := exec.CommandContext(ctx, "go", "test", "-vet=off", "-ldflags=-w", "-count=1", file).CombinedOutput()
	if err != nil {
		return fmt.Sprintf("the tests fail: %v\n%s", err, out)
	}
	return ""
}

// runProgram runs a program whose output is shown and returns the problem with it, or "".
func runProgram(ctx context.Context, dir string, b block) string {
	file, program := filepath.Join(dir, "main.go"), filepath.Join(dir, "main")
	if err := os.WriteFile(file, []byte(b.code), 0o600); err != nil {
		return err.Error()
	}
	if out, err := exec.CommandContext(ctx, "go", "build", "-ldflags=-w", "-o", program, file).CombinedOutput(); err != nil {
		return fmt.Sprintf("the program does not build: %v\n%s", err, out)
	}
	wrong := ""
	for range attempts {
		if wrong = runOnce(ctx, program, b.output); wrong == "" {
			return ""
		}
	}
	return wrong
}

// attempts is how often a program is run before its output counts as wrong. What it prints may depend on timing, and a busy machine
// may pause it anywhere.
const attempts = 3

// runOnce runs a program once and returns the problem, or "".
func runOnce(ctx context.Context, program string, output *block) string {
	var printed bytes.Buffer
	run := exec.CommandContext(ctx, program)
	run.Dir, run.Stdout, run.Stderr = filepath.Dir(program), &printed, &printed
	if err := run.Run(); err != nil {
		return fmt.Sprintf("the program fails: %v\n%s", err, printed.String())
	}
	if !matches(output.code, printed.String()) {
		return fmt.Sprintf("the program prints\n%s\nwant, as line %d has it,\n%s", printed.String(), output.line, output.code)
	}
	return ""
}

// matches reports whether got matches what a page shows. A line of "..." matches any lines, and "..." within a line anything up to
// the text that follows it or to the end of the line. Dates, times of day and fractions of a second may differ.
func matches(shown, got string) bool {
	pattern := regexp.QuoteMeta(plainLines(shown) + "\n")
	pattern = regexp.MustCompile(`(?m)^ *\\\.\\\.\\\.\n`).ReplaceAllString(pattern, `(?:.*\n)*`)
	pattern = strings.ReplaceAll(pattern, `\.\.\.`, `.*`)
	return regexp.MustCompile(`\A` + pattern + `\z`).MatchString(plainLines(got) + "\n")
}

var (
	clock    = regexp.MustCompile(`\b\d\d:\d\d:\d\d\b`)
	date     = regexp.MustCompile(`\b\d{4}-\d\d-\d\d\b`)
	fraction = regexp.MustCompile(`\b\d+\.\d+(µs|ms|s)\b`)
)

// plainLines removes spaces at the ends of lines and empty lines at both ends, and replaces times by a constant.
func plainLines(text string) string {
	text = clock.ReplaceAllString(text, "15:04:05")
	text = date.ReplaceAllString(text, "2006-01-02")
	text = fraction.ReplaceAllString(text, "1.5$1")
	lines := strings.Split(text, "\n")
	for i, line := range lines {
		lines[i] = strings.TrimRight(line, " \t\r")
	}
	return strings.Trim(strings.Join(lines, "\n"), "\n")
}

func TestMatches(t *testing.T) {
	for _, c := range []struct {
		shown, got string
		want       bool
	}{
		{"a\nb\n", "a\r\nb\r\n\r\n", true},
		{"a\nb\n", "a\nc\n", false},
		{"a\n...\nd\n", "a\nb\nc\nd\n", true},
		{"a\n...\nd\n", "a\nd\n", true},
		{"a\n...\n", "a\nb\n\nc", true},
		{"a\n...\n", "b\na\n", false},
		{"key ...2 of 3\n", "key 9f86d0 2 of 3\n", true},
		{"key ...2 of 3\n", "key 9f86d0 1 of 3\n", false},
		{"a\n", "a\nb\n", false},
		{"in 59.811908s, until 2026-11-16 16:24:21", "in 59.6s, until 2030-01-02 08:00:00", true},
		{"in 59.811908s", "in 59.6ms", false},
	} {
		if got := matches(c.shown, c.got); got != c.want {
			t.Errorf("matches(%q, %q) is %v, want %v", c.shown, c.got, got, c.want)
		}
	}
}
