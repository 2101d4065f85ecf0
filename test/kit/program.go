package kit

import (
	"testing"

	"github.com/slidegate/slidegate/internal/testkit"
)

// SkipWithoutProgram skips a test because a program is not installed, unless TEST_REQUIRE names it: then the test fails.
func SkipWithoutProgram(t testing.TB, name string) {
	t.Helper()
	testkit.Missing(t, name, name+" is not installed, so no real one was tested; make test installs it")
}
