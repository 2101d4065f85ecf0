// Package restart_test restarts the program under load, behind nginx, with sockets that another process keeps open, and with ports
// that two processes share.
package restart_test

import (
	"flag"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/slidegate/slidegate/cmd/slidegate/internal/testkit"
)

// rounds is how often each test restarts; make long T=restarts uses more.
var rounds = flag.Int("rounds", 2, "how often to restart everything")

// slidegate is the real binary, built once.
var slidegate string

func TestMain(m *testing.M) {
	flag.Parse()
	testkit.MainWithProgram(m, filepath.Join("..", "..", ".."), &slidegate)
}

// application responds "hello" to every request.
func application(t *testing.T) (address string) {
	app := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		fmt.Fprint(w, "hello")
	}))
	t.Cleanup(app.Close)
	return strings.TrimPrefix(app.URL, "http://")
}

// process is a running program.
type process struct{ *testkit.Process }

// run starts a program that is killed when the test ends.
func run(t *testing.T, cmd *exec.Cmd) *process {
	t.Helper()
	return &process{testkit.Run(t, cmd)}
}

// terminate sends SIGTERM to the program, as an operator does, and waits until it has ended.
func (p *process) terminate(t *testing.T) {
	t.Helper()
	testkit.NoError(t, p.Signal(syscall.SIGTERM))
	<-p.Ended
	if p.Status != 0 || strings.Contains(p.Output.String(), "aborted") {
		t.Errorf("the program ended with %d: %s", p.Status, p.Output.String())
	}
}

// ampleLimit is a limit that no client reaches.
const ampleLimit = "1000000000/1h fixed-window"

// serve starts the service at an address, with all other listeners off.
func serve(t *testing.T, address string, args ...string) *process {
	t.Helper()
	p := run(t, exec.Command(slidegate, slices.Concat([]string{
		"serve", "--http", address, "--grpc", "off", "--resp", "off", "--admin", "off", "--limit", ampleLimit, "--drain-delay", "500ms",
	}, args)...))
	p.AwaitOutput(t, "\n  http ")
	return p
}
