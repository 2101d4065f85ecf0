// Package restart_test restarts the program under load, behind nginx, with sockets that another process keeps open, and with ports
// that two processes share.
package restart_test

import (
	"flag"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
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
type process struct {
	*os.Process
	output testkit.Output
	ended  chan struct{}
	status int // once ended
}

// run starts a program that is stopped when the test ends.
func run(t *testing.T, cmd *exec.Cmd) *process {
	t.Helper()
	p := &process{ended: make(chan struct{})}
	cmd.Env = append(slices.DeleteFunc(os.Environ(), func(v string) bool {
		return strings.HasPrefix(v, "SLIDEGATE_") || strings.HasPrefix(v, "OTEL_")
	}), cmd.Env...)
	cmd.Stdout, cmd.Stderr = &p.output, &p.output
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	testkit.NoError(t, cmd.Start())
	p.Process = cmd.Process
	go func() {
		_ = cmd.Wait()
		p.status = cmd.ProcessState.ExitCode()
		close(p.ended)
	}()
	t.Cleanup(func() {
		_ = p.Kill()
		<-p.ended
	})
	return p
}

// awaitOutput waits until the program has printed text.
func (p *process) awaitOutput(t *testing.T, text string) {
	t.Helper()
	testkit.Eventually(t, "the program prints "+text, func() bool {
		select {
		case <-p.ended:
			t.Fatalf("the program has ended: %s", p.output.String())
		default:
		}
		return strings.Contains(p.output.String(), text)
	})
}

// terminate sends SIGTERM to the program, as an operator does, and waits until it has ended.
func (p *process) terminate(t *testing.T) {
	t.Helper()
	testkit.NoError(t, p.Signal(syscall.SIGTERM))
	<-p.ended
	if p.status != 0 || strings.Contains(p.output.String(), "aborted") {
		t.Errorf("the program ended with %d: %s", p.status, p.output.String())
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
	p.awaitOutput(t, "\n  http ")
	return p
}
