package kit

import (
	"errors"
	"fmt"
	"net"
	"os"
	"slices"
	"strings"
	"sync"
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

// usedPorts holds the ports that FreePort has returned, so that it does not return one twice before a server listens on it.
var usedPorts sync.Map

// FreePort returns an unused port of the loopback interface. Another process can still take it before the server
// does; then the server ends at once, and its caller tries another port.
func FreePort() (int, error) {
	for range 100 {
		listener, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			return 0, fmt.Errorf("kit: no port to listen on: %w", err)
		}
		port := listener.Addr().(*net.TCPAddr).Port
		listener.Close()
		if _, taken := usedPorts.LoadOrStore(port, true); !taken {
			return port, nil
		}
	}
	return 0, errors.New("kit: found no free port")
}
