package restart_test

import (
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/slidegate/slidegate/cmd/slidegate/internal/testkit"
)

// activated starts the program with a listening socket, as systemd does: the socket is file descriptor 3, and a variable names the
// process that it is for.
func activated(t *testing.T, socket *os.File, args ...string) *process {
	t.Helper()
	cmd := exec.Command("sh", append([]string{"-c", `LISTEN_PID=$$ exec "$0" "$@"`, slidegate}, args...)...)
	cmd.Env = []string{"LISTEN_FDS=1", "LISTEN_FDNAMES=http"}
	cmd.ExtraFiles = []*os.File{socket}
	return run(t, cmd)
}

// keepSocket opens a socket that stays open across restarts, and returns its address.
func keepSocket(t *testing.T) (socket *os.File, address string) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	testkit.NoError(t, err)
	defer l.Close()
	socket, err = l.(*net.TCPListener).File()
	testkit.NoError(t, err)
	t.Cleanup(func() { _ = socket.Close() })
	return socket, l.Addr().String()
}

// TestProxyHandover stops and restarts a proxy whose socket is kept open by another process, as systemctl restart does. No client
// notices.
func TestProxyHandover(t *testing.T) {
	socket, address := keepSocket(t)
	args := []string{"proxy", "--to", "http://" + application(t), "--http", "127.0.0.1:1", "--admin", "off", "--limit", ampleLimit, "--drain-delay", "500ms"}
	proxy := activated(t, socket, args...)
	proxy.AwaitOutput(t, "http://"+address)
	all := startLoad(t, address)
	for range *rounds {
		proxy.terminate(t)
		proxy = activated(t, socket, args...)
		proxy.AwaitOutput(t, "http://"+address)
		before := all.requests.Load()
		testkit.Eventually(t, "the new process answers", func() bool { return all.requests.Load() > before+100 })
	}
	all.check(t)
	if all.last == 0 {
		t.Error("no response ended a connection: nothing was restarted")
	}
}

// TestReusePort starts a new process on the port before the old one ends.
func TestReusePort(t *testing.T) {
	address := testkit.FreeAddress(t)
	app := application(t)
	start := func() *process {
		p := run(t, exec.Command(slidegate, "proxy", "--to", "http://"+app, "--http", address, "--reuse-port", "--admin", "off", "--limit", ampleLimit,
			"--drain-delay", "500ms"))
		p.AwaitOutput(t, "http://"+address)
		return p
	}
	proxy := start()
	all := startLoad(t, address)
	for range *rounds {
		next := start()
		proxy.terminate(t)
		proxy = next
	}
	all.check(t)
}

// TestSocketActivation passes sockets for two listeners by systemd's own tool, distinguished by their names.
func TestSocketActivation(t *testing.T) {
	tool := testkit.Program(t, "systemd-socket-activate")
	web, admin := testkit.FreeAddress(t), testkit.FreeAddress(t)
	p := run(t, exec.Command(tool, "--listen", admin, "--listen", web, "--fdname", "admin:http", slidegate, "serve", "--grpc", "off", "--resp", "off"))
	p.AwaitOutput(t, "Listening on")
	var response *http.Response
	var err error
	testkit.Eventually(t, "the service is started", func() bool {
		response, err = http.Get("http://" + web + "/healthz")
		return err == nil
	})
	response.Body.Close()
	response, err = http.Get("http://" + admin + "/v1/config")
	testkit.NoError(t, err)
	response.Body.Close()
	if response.StatusCode != http.StatusOK {
		t.Errorf("the admin listener: got %d, want status 200", response.StatusCode)
	}
	p.terminate(t)
}

// TestNotify checks that the service notifies systemd when it is ready, reloads, is alive and stops.
func TestNotify(t *testing.T) {
	path := filepath.Join(t.TempDir(), "notify")
	systemd, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: path, Net: "unixgram"})
	testkit.NoError(t, err)
	defer systemd.Close()
	file := filepath.Join(t.TempDir(), "slidegate.yaml")
	testkit.NoError(t, os.WriteFile(file, []byte("policies: {a: {limits: [1/1m]}}\n"), 0o600))
	cmd := exec.Command(slidegate, "serve", "--config", file, "--http", "127.0.0.1:0", "--grpc", "off", "--resp", "off", "--admin", "off")
	cmd.Env = []string{"NOTIFY_SOCKET=" + path, "WATCHDOG_USEC=100000"}
	p := run(t, cmd)
	wantMessage := func(want string) {
		t.Helper()
		for text := make([]byte, 4096); ; {
			n, err := systemd.Read(text)
			testkit.NoError(t, err)
			if strings.HasPrefix(string(text[:n]), want) {
				return
			}
			if !strings.HasPrefix(string(text[:n]), "WATCHDOG=1") {
				t.Fatalf("systemd received %q, want %q", text[:n], want)
			}
		}
	}
	wantMessage("READY=1")
	wantMessage("WATCHDOG=1")
	p.AwaitOutput(t, "\n  http ")
	testkit.NoError(t, p.Signal(syscall.SIGHUP))
	wantMessage("RELOADING=1\nMONOTONIC_USEC=")
	wantMessage("READY=1")
	testkit.NoError(t, os.WriteFile(file, []byte("policies: {a: {limits: [1/1x]}}\n"), 0o600))
	wantMessage("RELOADING=1\nMONOTONIC_USEC=")
	wantMessage("READY=1\nSTATUS=a file was not reloaded: ")
	p.terminate(t)
	wantMessage("STOPPING=1")
}

// TestUnits checks that the systemd units of the repository are valid, and that their flags exist.
func TestUnits(t *testing.T) {
	dir := t.TempDir()
	folder := filepath.Join("..", "..", "..", "..", "..", "deploy")
	units, err := filepath.Glob(filepath.Join(folder, "slidegate*.s*")) // services and sockets
	testkit.NoError(t, err)
	args := []string{"verify"}
	for _, unit := range units {
		text, err := os.ReadFile(unit)
		testkit.NoError(t, err)
		at := filepath.Join(dir, filepath.Base(unit))
		missing := filepath.Join(dir, "missing.yaml")
		installed := strings.NewReplacer("/usr/local/bin/slidegate", slidegate, "/etc/slidegate/slidegate.yaml", missing).Replace(string(text))
		testkit.NoError(t, os.WriteFile(at, []byte(installed), 0o600))
		args = append(args, at)
		for line := range strings.Lines(installed) {
			if command, ok := strings.CutPrefix(line, "ExecStart="); ok {
				output, err := exec.Command("sh", "-c", command).CombinedOutput()
				if err == nil || !strings.Contains(string(output), missing) { // after it has read its flags
					t.Errorf("%s: %v: %s", unit, err, output)
				}
			}
		}
	}
	if len(units) != 6 {
		t.Errorf("found %d units, want 6: %q", len(units), units)
	}
	if output, err := exec.Command("systemd-analyze", args...).CombinedOutput(); err != nil || len(output) > 0 {
		t.Errorf("systemd-analyze: %v: %s", err, output)
	}
}
