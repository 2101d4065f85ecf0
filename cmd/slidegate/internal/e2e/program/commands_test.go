package program_test

import (
	"strings"
	"testing"
)

// The program's exit statuses.
const (
	exitOK      = 0
	exitRefused = 1
	exitFailure = 2
)

// commandRuns is a sequence of command lines and their expected results.
type commandRuns []struct {
	args   []string
	status int
	want   string // part of the output or of the error
}

func (steps commandRuns) play(t *testing.T, more ...string) {
	t.Helper()
	for i, step := range steps {
		status, out, errs := call(t, append(step.args, more...)...)
		output := out
		if step.status == exitFailure {
			output = errs
		}
		if status != step.status || !strings.Contains(output, step.want) {
			t.Errorf("%d: %q: got status %d, want %d; got\n%s%s\nwant %q", i, step.args, status, step.status, out, errs, step.want)
		}
		if step.status != exitFailure && errs != "" {
			t.Errorf("%d: %q: unexpected output on stderr: %s", i, step.args, errs)
		}
	}
}
