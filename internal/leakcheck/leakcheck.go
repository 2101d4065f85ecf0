// Package leakcheck fails a test binary that leaves goroutines running. It uses only the standard library, so that the
// tests of the core packages need no downloads.
package leakcheck

import (
	"fmt"
	"io"
	"os"
	"runtime"
	"strings"
	"testing"
	"time"
)

// grace is how long goroutines that are about to end may take. The package's own test makes it shorter.
var grace = 5 * time.Second

// Main runs the tests and exits. If they pass and goroutines are left, it prints their stacks and exits with 1. Use it as
// the entire body of TestMain.
func Main(m *testing.M) {
	code := m.Run()
	if code == 0 {
		code = report(os.Stderr, Left(grace))
	}
	os.Exit(code)
}

// Left returns the stacks of the goroutines, other than the caller's, that are still running after grace. It returns as
// soon as there are none. Goroutines of package testing and of the runtime do not count.
func Left(grace time.Duration) []string {
	deadline := time.Now().Add(grace)
	for {
		left := otherStacks()
		if len(left) == 0 || !time.Now().Before(deadline) {
			return left
		}
		time.Sleep(time.Millisecond) // there is no notification when a goroutine ends
	}
}

// otherStacks returns the stacks of all goroutines except the caller's and those that every test binary has.
func otherStacks() []string {
	text := make([]byte, 64<<10)
	for {
		n := runtime.Stack(text, true)
		if n < len(text) {
			text = text[:n]
			break
		}
		text = make([]byte, 2*len(text))
	}
	var left []string
	for _, stack := range strings.Split(string(text), "\n\n")[1:] { // the first is the caller's
		if !isExpected(stack) {
			left = append(left, strings.TrimSpace(stack))
		}
	}
	return left
}

// isExpected reports whether a goroutine belongs to the test binary itself: the main goroutine, which waits for the tests,
// the tests, and goroutines started by flags of go test and by signals.
func isExpected(stack string) bool {
	if strings.Contains(stack, "\ntesting.(*M).Run(") {
		return true
	}
	_, creator, _ := strings.Cut(stack, "\ncreated by ")
	for _, pkg := range [...]string{"testing.", "runtime.", "runtime/trace.", "runtime/pprof.", "os/signal."} {
		if strings.HasPrefix(creator, pkg) {
			return true
		}
	}
	return false
}

// report prints the remaining stacks, and returns the exit code.
func report(to io.Writer, left []string) int {
	if len(left) == 0 {
		return 0
	}
	fmt.Fprintf(to, "leakcheck: %d goroutines are still running after the tests:\n\n%s\n", len(left), strings.Join(left, "\n\n"))
	return 1
}
