// Package serverclock gives a server that a test starts a wall clock that the test can set while the server runs. The
// server is the real one: a small library, which is compiled for the test and loaded into the server before the C
// library, intercepts the server's calls to the system's clock. It works on Linux, for programs that use the C library.
package serverclock

import (
	_ "embed"
	"encoding/binary"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/slidegate/slidegate/internal/testkit"
)

//go:embed testdata/preload.c
var source string

// Clock is the wall clock of a server. It is not safe for concurrent use. The zero value is not usable; call New.
type Clock struct {
	t     testing.TB
	file  *os.File
	env   []string
	ahead time.Duration
}

// New returns a clock that equals the system's until it is set. Without a C compiler, or without Linux, the test is skipped,
// unless TEST_REQUIRE names cc.
func New(t testing.TB) *Clock {
	t.Helper()
	compiler, err := exec.LookPath("cc")
	if err != nil || runtime.GOOS != "linux" {
		testkit.Missing(t, "cc", "there is no cc on a Linux system, so no server's clock was set: make test installs it")
	}
	folder := readableFolder(t)
	library, setting := filepath.Join(folder, "preload.so"), filepath.Join(folder, "ahead")
	build := exec.Command(compiler, "-O2", "-shared", "-fPIC", "-x", "c", "-o", library, "-")
	build.Stdin = strings.NewReader(source)
	if printed, err := build.CombinedOutput(); err != nil {
		t.Fatalf("serverclock: cannot compile the library: %v\n%s", err, printed)
	}
	file, err := os.OpenFile(setting, os.O_CREATE|os.O_RDWR, 0o644)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { file.Close() })
	c := &Clock{t: t, file: file, env: []string{"LD_PRELOAD=" + library, "TEST_SERVER_CLOCK=" + setting}}
	c.Set(0)
	return c
}

// readableFolder returns a directory that is removed with the test. Servers may run as another user, who must be able
// to read it.
func readableFolder(t testing.TB) string {
	t.Helper()
	folder, err := os.MkdirTemp("", "serverclock-")
	if err == nil {
		t.Cleanup(func() { os.RemoveAll(folder) })
		err = os.Chmod(folder, 0o755)
	}
	if err != nil {
		t.Fatal(err)
	}
	return folder
}

// Env returns variables that the environment of the server must contain.
func (c *Clock) Env() []string { return c.env }

// Ahead returns how far the server's clock is ahead of the system's.
func (c *Clock) Ahead() time.Duration { return c.ahead }

// Set sets the server's clock that far ahead of the system's, in whole microseconds. It takes effect immediately, for
// all processes of the server: eight aligned bytes of a file change together for processes that have it mapped.
func (c *Clock) Set(ahead time.Duration) {
	c.t.Helper()
	c.ahead = ahead.Truncate(time.Microsecond)
	var text [8]byte
	binary.NativeEndian.PutUint64(text[:], uint64(c.ahead.Microseconds()))
	if _, err := c.file.WriteAt(text[:], 0); err != nil {
		c.t.Fatal(err)
	}
}
