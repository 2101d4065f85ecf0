package redistest

import (
	"os"
	"os/exec"
	"testing"

	"github.com/slidegate/slidegate/test/kit"
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
	kit.SkipWithoutProgram(t, "redis-server")
	return ""
}
