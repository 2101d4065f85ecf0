// Package leakcheck fails a test binary that leaves goroutines running. It needs the standard library alone, so that the
// tests of the core packages ask nobody to download anything.
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

// patience is how long goroutines that are about to end may take. Its own test makes it shorter.
var patience = 5 * time.Second

// Main runs the tests and exits. If they pass and goroutines are left, it prints their stacks and exits with 1. Use it as
// the whole of a TestMain.
func Main(m *testing.M) {
	code := m.Run()
	if code == 0 {
		code = report(os.Stderr, Left(patience))
	}
	os.Exit(code)
}

// Left returns the stacks of the goroutines that still run beside the caller's when patience is over; none at once if
// there are none. Goroutines of package testing and of the runtime do not count.
func Left(patience time.Duration) []string {
	deadline := time.Now().Add(patience)
	for {
		left := others()
		if len(left) == 0 || !time.Now().Before(deadline) {
			return left
		}
		time.Sleep(time.Millisecond) // a goroutine says nothing when it has ended
	}
}

// others returns the stacks of all goroutines but the caller's and those that every test binary has.
func others() []string {
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
		if !expected(stack) {
			left = append(left, strings.TrimSpace(stack))
		}
	}
	return left
}

// expected reports whether a goroutine belongs to the test binary itself: the main one, which waits for the tests, the tests,
// and what the flags of go test and signals have started.
func expected(stack string) bool {
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

// report prints the stacks that are left, and returns the exit code.
func report(to io.Writer, left []string) int {
	if len(left) == 0 {
		return 0
	}
	fmt.Fprintf(to, "leakcheck: %d goroutines still run after the tests:\n\n%s\n", len(left), strings.Join(left, "\n\n"))
	return 1
}
