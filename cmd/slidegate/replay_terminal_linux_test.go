package main

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/slidegate/slidegate/internal/testkit"
)

// A terminal is not read: without a pipe, the error says what to do at once.
func TestReplayDoesNotWaitForTerminal(t *testing.T) {
	terminal, err := os.OpenFile("/dev/ptmx", os.O_RDWR, 0)
	if err != nil {
		testkit.Missing(t, "terminals", fmt.Sprintf("no terminal: %v", err))
	}
	defer terminal.Close()
	for want, args := range map[string][]string{
		"standard input (-) is a terminal; pipe a log in":             {"replay", "-"},
		"nothing to replay; name a log, or - to read one from a pipe": {"replay"},
	} {
		if r := callWith(t.Context(), terminal, args...); r.status != exitFailure || !strings.Contains(r.err, want) {
			t.Errorf("%q: got status %d, %s, want %q", args, r.status, r.err, want)
		}
	}
}
