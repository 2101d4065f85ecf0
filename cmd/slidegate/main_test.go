package main

import (
	"bytes"
	"context"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/slidegate/slidegate/cmd/slidegate/internal/testkit"
	"github.com/slidegate/slidegate/internal/testkit/generate"
)

// program is the real binary, built once.
var program string

func TestMain(m *testing.M) { testkit.MainWithProgram(m, ".", &program) }

// result is the result of a command line.
type result struct {
	status int
	out    string
	err    string
}

// call runs a command line in this process, with nothing on standard input.
func call(t testing.TB, args ...string) result {
	t.Helper()
	return callWith(t.Context(), strings.NewReader(""), args...)
}

func callWith(ctx context.Context, in io.Reader, args ...string) result {
	var out, errs bytes.Buffer
	status := run(ctx, &console{in: in, out: &out, err: &errs, command: "slidegate " + strings.Join(args, " ")}, args)
	return result{status, out.String(), errs.String()}
}

// mustCall is like call, but fails the test unless the command succeeds. It returns the output.
func mustCall(t testing.TB, args ...string) string {
	t.Helper()
	r := call(t, args...)
	if r.status != exitOK {
		t.Fatalf("slidegate %s: status %d\n%s", strings.Join(args, " "), r.status, r.err)
	}
	return r.out
}

// write creates a file in a new temporary folder, and returns its path.
func write(t testing.TB, name string, content []byte) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, content, 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// made returns synthetic traffic as JSON lines.
func made(t testing.TB, o generate.Options) string {
	t.Helper()
	var log bytes.Buffer
	if err := generate.Lines(&log, o); err != nil {
		t.Fatal(err)
	}
	return log.String()
}

// canceled returns a context that has ended.
func canceled(t *testing.T) context.Context {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	return ctx
}
