package redistest

import (
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
)

// program returns the path of the server's program: the one that TEST_REDIS_SERVER names, or otherwise the installed
// one. Without one the test is skipped, unless TEST_REQUIRE names redis-server.
func program(t testing.TB) string {
	t.Helper()
	if path := os.Getenv("TEST_REDIS_SERVER"); path != "" {
		return path
	}
	for _, name := range []string{"redis-server", "valkey-server"} {
		if path, err := exec.LookPath(name); err == nil {
			return path
		}
	}
	if required() {
		t.Fatal("there is no redis-server, and TEST_REQUIRE asks for one: make test installs it")
	}
	t.Skip("SKIPPED: there is no redis-server, so nothing was asked of a real one: make test installs it")
	return ""
}

func required() bool {
	return slices.Contains(strings.Split(os.Getenv("TEST_REQUIRE"), ","), "redis-server")
}
