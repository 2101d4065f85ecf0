package docs

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"

	"github.com/slidegate/slidegate/cmd/slidegate/internal/testkit"
)

// TestPrograms runs every Go file of the pages. A program followed by a text block prints that text, a server admits its quota and
// then refuses (see runServer), and the tests of a file pass. The addresses in programs are replaced by those of real servers.
func TestPrograms(t *testing.T) {
	t.Parallel()
	problems, count := checkPrograms(t, readPages(t))
	report(t, problems)
	t.Logf("%d programs", count)
}

func checkPrograms(t *testing.T, pages []*page) (problems []problem, count int) {
	t.Helper()
	var samples []sample
	for _, p := range pages {
		for _, b := range p.blocks {
			if run := runnerOf(p, b); run != nil {
				samples = append(samples, sample{p, b.line, func(t *testing.T) string { return run(t, p, b) }})
			}
		}
	}
	return runSamples(t, samples), len(samples)
}

// A sample is something on a page that can be run.
type sample struct {
	page *page
	line int
	run  func(t *testing.T) string // returns the problem, or ""
}

// runSamples runs samples in parallel, each as a test of its own, so that those without a server are skipped.
func runSamples(t *testing.T, samples []sample) (problems []problem) {
	t.Helper()
	var mu sync.Mutex
	t.Run("run", func(t *testing.T) {
		for _, s := range samples {
			t.Run(fmt.Sprintf("%s:%d", s.page.path, s.line), func(t *testing.T) {
				t.Parallel()
				if wrong := s.run(t); wrong != "" {
					mu.Lock()
					defer mu.Unlock()
					problems = append(problems, s.page.problemf(s.line, "%s", wrong))
				}
			})
		}
	})
	return problems
}

// runnerOf returns the function that runs a block, or nil if the block is not a Go file.
func runnerOf(p *page, b block) func(t *testing.T, p *page, b block) string {
	switch {
	case b.language != "go" || !isFile(b.code) || isNamed(b): // TestConsoles runs named programs
		return nil
	case hasTests.MatchString(b.code):
		return runTests
	case !isProgram.MatchString(b.code):
		return runPackage
	case listens.MatchString(b.code):
		return runServer
	case outageOf(p, b) != nil:
		return runOutage
	}
	return runProgram
}

var (
	hasTests  = regexp.MustCompile(`(?m)^func (Test|Example|Benchmark|Fuzz)\w*\(`)
	isProgram = regexp.MustCompile(`(?m)^package main$`)
	listens   = regexp.MustCompile(`http\.ListenAndServe\("([^"]+)"`)
)

// runTests runs the tests of a block and returns the problem with them, or "".
func runTests(t *testing.T, _ *page, b block) string {
	file := filepath.Join(t.TempDir(), "sample_test.go")
	testkit.NoError(t, os.WriteFile(file, []byte(b.code), 0o600))
	return goTest(t, os.Environ(), file)
}

// goTest runs the tests of some files and returns the problem with them, or "".
func goTest(t *testing.T, env []string, files ...string) string {
	cmd := exec.CommandContext(t.Context(), "go", append([]string{"test", "-vet=off", "-ldflags=-w", "-count=1"}, files...)...)
	cmd.Env = env
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Sprintf("the tests fail: %v\n%s", err, out)
	}
	return ""
}

// runPackage tests a package that a page shows: with the tests on the same page if they import it, otherwise with a file named after
// the page in testdata/packages.
func runPackage(t *testing.T, p *page, b block) string {
	imported := regexp.MustCompile(`"[^"\n]*/` + packageName.FindStringSubmatch(b.code)[1] + `"`)
	for _, other := range p.blocks {
		if other.language == "go" && hasTests.MatchString(other.code) && imported.MatchString(other.code) {
			return "" // runTests runs them
		}
	}
	name := strings.TrimSuffix(path.Base(p.path), ".md") + "_test.go"
	tests, err := os.ReadFile(filepath.Join("testdata", "packages", name))
	if err != nil {
		return "nothing runs this package: test it in testdata/packages/" + name
	}
	dir := t.TempDir()
	files := []string{filepath.Join(dir, "sample.go"), filepath.Join(dir, "sample_test.go")}
	testkit.NoError(t, os.WriteFile(files[0], []byte(b.code), 0o600))
	testkit.NoError(t, os.WriteFile(files[1], tests, 0o600))
	var variables []string
	if strings.Contains(string(tests), redisVariable) {
		variables = []string{redisVariable}
	}
	return goTest(t, environment(t, variables), files...)
}

var packageName = regexp.MustCompile(`(?m)^package (\w+)`)

// build builds a program whose servers are those of the variables, and returns its path, or the problem.
func build(t *testing.T, code string) (program string, variables []string, wrong string) {
	t.Helper()
	dir := t.TempDir()
	file, program := filepath.Join(dir, "main.go"), filepath.Join(dir, "main")
	code, variables = withServers(code)
	testkit.NoError(t, os.WriteFile(file, []byte(code), 0o600))
	if out, err := exec.CommandContext(t.Context(), "go", "build", "-ldflags=-w", "-o", program, file).CombinedOutput(); err != nil {
		return "", nil, fmt.Sprintf("the program does not build: %v\n%s", err, out)
	}
	return program, variables, ""
}

// runProgram runs a program that ends by itself and returns the problem with it, or "".
func runProgram(t *testing.T, _ *page, b block) string {
	program, variables, wrong := build(t, b.code)
	if wrong != "" {
		return wrong
	}
	return attempt(t, func() string { return runOnce(t, program, variables, b.output) })
}

// attempt runs a sample up to three times before its problem counts. What it does may depend on timing, and a busy machine may pause
// it, or its servers, anywhere.
func attempt(t *testing.T, once func() string) (wrong string) {
	t.Helper()
	for n := range 3 {
		if wrong = once(); wrong == "" {
			return ""
		}
		t.Logf("attempt %d: %s", n+1, wrong)
	}
	return wrong
}

// runOnce runs a program once, with servers of its own, and returns the problem, or "".
func runOnce(t *testing.T, program string, variables []string, output *block) string {
	var printed bytes.Buffer
	ctx, cancel := context.WithTimeout(t.Context(), testkit.Patience)
	defer cancel()
	run := exec.CommandContext(ctx, program)
	run.Dir, run.Env = t.TempDir(), environment(t, variables)
	run.Stdout, run.Stderr = &printed, &printed
	if err := run.Run(); err != nil {
		return fmt.Sprintf("the program fails: %v\n%s", err, printed.String())
	}
	if output != nil && !matches(output.code, printed.String()) {
		return fmt.Sprintf("the program prints\n%s\nwant, as on line %d,\n%s", printed.String(), output.line, output.code)
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
