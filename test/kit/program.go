package kit

import (
	"os"
	"slices"
	"strings"
	"testing"
)

// SkipWithoutProgram skips a test because a program is not installed, unless TEST_REQUIRE names it: then the test fails.
func SkipWithoutProgram(t testing.TB, name string) {
	t.Helper()
	if slices.Contains(strings.Split(os.Getenv("TEST_REQUIRE"), ","), name) {
		t.Fatal(name + " is not installed, and TEST_REQUIRE names it; make test installs it")
	}
	t.Skip("SKIPPED: " + name + " is not installed, so no real one was tested; make test installs it")
}
