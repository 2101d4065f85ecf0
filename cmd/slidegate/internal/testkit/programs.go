package testkit

import (
	"bytes"
	"net"
	"os/exec"
	"sync"
	"testing"
)

// Program finds a program that tools/deps installs, also where only root looks for it.
func Program(t testing.TB, name string) string {
	t.Helper()
	for _, at := range []string{name, "/usr/sbin/" + name, "/usr/local/sbin/" + name} {
		if path, err := exec.LookPath(at); err == nil {
			return path
		}
	}
	t.Fatalf("there is no %s: make test installs it", name)
	return ""
}

// FreeAddress returns an address of this machine at which nobody listened a moment ago, for programs that cannot choose one.
func FreeAddress(t testing.TB) string {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	NoError(t, err)
	defer listener.Close()
	return listener.Addr().String()
}

// Output is what a program says. It can be read while the program runs.
type Output struct {
	mu   sync.Mutex
	text bytes.Buffer
}

// Write takes more of it.
func (o *Output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.text.Write(p)
}

// String returns what there is of it.
func (o *Output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.text.String()
}
