package testkit

import (
	"bytes"
	"os/exec"
	"sync"
	"testing"

	"github.com/slidegate/slidegate/internal/testkit"
)

// Program finds a program that tools/deps installs, including in folders that are only on root's path.
func Program(t testing.TB, name string) string {
	t.Helper()
	for _, at := range []string{name, "/usr/sbin/" + name, "/usr/local/sbin/" + name} {
		if path, err := exec.LookPath(at); err == nil {
			return path
		}
	}
	t.Fatalf("%s not found; make test installs it", name)
	return ""
}

// FreeAddress returns a free local address, for programs that cannot choose one themselves.
func FreeAddress(t testing.TB) string {
	t.Helper()
	return testkit.FreeAddress(t)
}

// Output collects the output of a program. It can be read while the program runs.
type Output struct {
	mu   sync.Mutex
	text bytes.Buffer
}

// Write appends to the output.
func (o *Output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.text.Write(p)
}

// String returns the output so far.
func (o *Output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.text.String()
}
