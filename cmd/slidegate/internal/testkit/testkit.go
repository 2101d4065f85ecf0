// Package testkit has helpers shared by the program's tests: waiting for conditions, checking errors, certificates, and running programs
// such as this one. It depends only on the standard library and internal/testkit, and only tests import it.
package testkit

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/slidegate/slidegate/internal/testkit"
)

// Missing skips a test because something is missing, unless TEST_REQUIRE names it; see there.
var Missing = testkit.Missing

// Patience is how long anything may take on a busy machine.
const Patience = 30 * time.Second

// Eventually waits until condition returns true, and calls it every few milliseconds. It fails the test if that takes longer than
// Patience. The failure message contains what.
func Eventually(t testing.TB, what string, condition func() bool) {
	t.Helper()
	if !eventually(Patience, condition) {
		t.Fatalf("not true after %v: %s", Patience, what)
	}
}

// eventually reports whether condition returned true in time.
func eventually(patience time.Duration, condition func() bool) bool {
	late := time.After(patience)
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for !condition() {
		select {
		case <-late:
			return condition()
		case <-tick.C:
		}
	}
	return true
}

// NoError fails the test if err is not nil.
func NoError(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatalf("got error %v, want nil", err)
	}
}

// Commands encodes commands, one per line, as Redis clients send them.
func Commands(lines string) string {
	var encoded strings.Builder
	for line := range strings.Lines(lines) {
		words := strings.Fields(line)
		fmt.Fprintf(&encoded, "*%d\r\n", len(words))
		for _, word := range words {
			fmt.Fprintf(&encoded, "$%d\r\n%s\r\n", len(word), word)
		}
	}
	return encoded.String()
}

// MainWithProgram is the TestMain of packages that run the real program. It builds the program once from the folder of package
// main, sets path, runs the tests, and exits.
func MainWithProgram(m *testing.M, folder string, path *string) {
	dir, err := os.MkdirTemp("", "slidegate-test-*")
	if err != nil {
		panic(err)
	}
	*path = filepath.Join(dir, "slidegate")
	build := exec.Command("go", "build", "-o", *path, ".")
	build.Dir, build.Stderr = folder, os.Stderr
	if err := build.Run(); err != nil {
		panic("the program does not build: " + err.Error())
	}
	status := m.Run()
	os.RemoveAll(dir)
	os.Exit(status)
}
