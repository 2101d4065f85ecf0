package testkit

import (
	"os"
	"slices"
	"strings"
	"testing"
)

// Missing skips a test because something is missing; why says what, and what was not tested. If TEST_REQUIRE names it, the test fails.
func Missing(t testing.TB, name, why string) {
	t.Helper()
	if slices.Contains(strings.Split(os.Getenv("TEST_REQUIRE"), ","), name) {
		t.Fatalf("%s; TEST_REQUIRE names %s", why, name)
	}
	t.Skipf("SKIPPED: %s", why)
}
