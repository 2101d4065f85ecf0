package docs

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/slidegate/slidegate/cmd/slidegate/internal/testkit"
	"github.com/slidegate/slidegate/test/redistest"
)

// A machine is the machine that a page sets up with systemctl. Its /etc is a folder of the console. Only systemd is acted: units run
// the real slidegate with the settings of their unit files, and the real Redis, nginx and Prometheus, on free ports.
type machine struct {
	*console
	t     *testing.T // with which everything that runs ends
	redis *redistest.Node
	units map[string]*running
	calls chan systemCall
}

// A systemCall is a call of systemctl or journalctl.
type systemCall struct {
	args  []string
	reply chan<- systemReply
}

type systemReply struct {
	output string
	err    error
}

// newMachine starts a machine for the commands of a console. Its Redis runs, as after its installation.
func newMachine(t *testing.T, c *console) *machine {
	t.Helper()
	for _, program := range []string{"curl", "nginx", "promtool"} {
		installed(t, program)
	}
	m := &machine{console: c, t: t, units: map[string]*running{}, calls: make(chan systemCall)}
	for _, folder := range []string{"slidegate", "systemd/system", "redis", "nginx/conf.d", "nginx/sites-enabled", "prometheus"} {
		testkit.NoError(t, os.MkdirAll(c.file("/etc/"+folder), 0o700))
	}
	c.write(t, "/etc/redis/redis.conf", "")
	m.redis = redistest.Server(t, "include "+c.file("/etc/redis/redis.conf"))
	_, c.ports["6379"], _ = net.SplitHostPort(m.redis.Addr())
	for _, port := range []string{"80", "8090", "8092", "8093", "8443", "9090"} {
		_, c.ports[port], _ = net.SplitHostPort(testkit.FreeAddress(t))
	}
	example, err := os.ReadFile(filepath.Join(root, "examples", "nginx", "slidegate.conf"))
	testkit.NoError(t, err)
	testkit.NoError(t, os.MkdirAll(filepath.Join(c.dir, "examples", "nginx"), 0o700))
	c.write(t, "examples/nginx/slidegate.conf", c.replaced(string(example), false))
	server := httptest.NewServer(http.HandlerFunc(m.serve))
	t.Cleanup(server.Close)
	script := "#!/bin/sh\nexec curl --fail-with-body --data-binary \"$(basename $0) $*\" " + server.URL + "\n"
	for _, name := range []string{"systemctl", "journalctl"} {
		testkit.NoError(t, os.WriteFile(filepath.Join(c.dir, "bin", name), []byte(script), 0o700))
	}
	testkit.NoError(t, os.WriteFile(filepath.Join(c.dir, "bin", "chgrp"), []byte("#!/bin/sh\n"), 0o700)) // the test is not root
	return m
}

// serve passes a call on to the test.
func (m *machine) serve(w http.ResponseWriter, r *http.Request) {
	text, _ := io.ReadAll(r.Body)
	reply := make(chan systemReply, 1)
	select {
	case m.calls <- systemCall{strings.Fields(string(text)), reply}:
	case <-r.Context().Done():
		return
	}
	got := <-reply
	if got.err != nil {
		http.Error(w, got.err.Error(), http.StatusInternalServerError)
		return
	}
	fmt.Fprint(w, got.output)
}

// combinedOutput runs a command, and does what it asks of systemd, in the goroutine of the test.
func (m *machine) combinedOutput(t *testing.T, cmd *exec.Cmd) (out []byte, err error) {
	t.Helper()
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		out, err = cmd.CombinedOutput()
	}()
	for {
		select {
		case <-ended:
			return out, err
		case call := <-m.calls:
			output, err := m.call(t, call.args)
			call.reply <- systemReply{output, err}
		}
	}
}

// call does what systemctl or journalctl is called for.
func (m *machine) call(t *testing.T, args []string) (output string, err error) {
	t.Helper()
	program, args := args[0], slices.DeleteFunc(args[1:], func(arg string) bool { return strings.HasPrefix(arg, "-") })
	if program == "journalctl" {
		for _, unit := range args {
			if s := m.units[unit]; s != nil {
				output += s.output.String()
			}
		}
		return output, nil
	}
	for _, unit := range args[1:] {
		if unit == "redis-server" {
			m.redis.Kill()
			if args[0] != "stop" {
				m.redis.Restart()
			}
			continue
		}
		load := m.load(args[0] == "restart" && strings.HasPrefix(unit, "slidegate"))
		m.end(unit)
		if args[0] != "stop" {
			err = m.start(t, unit)
		}
		if err = errors.Join(err, load()); err != nil {
			return "", err
		}
	}
	return "", nil
}

// end sends SIGTERM to a unit, if it runs, and waits until it has ended.
func (m *machine) end(unit string) {
	if s := m.units[unit]; s != nil {
		_ = s.process.Process.Signal(syscall.SIGTERM) // it may have ended
		<-s.ended
	}
}

// start starts a unit, and waits until it is ready. That systemd reloads nginx instead of restarting it makes no difference here.
func (m *machine) start(t *testing.T, unit string) error {
	t.Helper()
	switch unit {
	case "nginx":
		m.units[unit] = startSample(m.t, m.nginx())
		m.units[unit].accepts(t, "127.0.0.1:"+m.ports["80"])
	case "prometheus":
		m.units[unit] = startSample(m.t, m.prometheus())
		m.units[unit].accepts(t, "127.0.0.1:"+m.ports["9090"])
	default:
		cmd, err := m.slidegate(t, unit)
		if err != nil {
			return err
		}
		ready := readiness(m.t, cmd)
		m.units[unit] = startSample(m.t, cmd)
		testkit.Eventually(t, unit+" is ready", func() bool { return ready() || m.units[unit].hasEnded() })
	}
	if s := m.units[unit]; s.hasEnded() {
		return fmt.Errorf("%s ends, and prints\n%s", unit, s.output)
	}
	return nil
}

// readiness returns a function that reports whether the program of a command has told systemd that it is ready.
func readiness(t *testing.T, cmd *exec.Cmd) (ready func() bool) {
	t.Helper()
	at := &net.UnixAddr{Name: filepath.Join(t.TempDir(), "notify"), Net: "unixgram"}
	socket, err := net.ListenUnixgram("unixgram", at)
	testkit.NoError(t, err)
	t.Cleanup(func() { _ = socket.Close() })
	cmd.Env = append(cmd.Env, "NOTIFY_SOCKET="+at.Name)
	var told atomic.Bool
	go func() {
		message := make([]byte, 1024)
		for {
			n, err := socket.Read(message)
			if err != nil {
				return
			}
			if strings.Contains(string(message[:n]), "READY=1") {
				told.Store(true)
			}
		}
	}()
	return told.Load
}

// nginx returns the command of nginx with the settings in conf.d. It waits longer for Slidegate than they say: the machine may be busy.
func (m *machine) nginx() *exec.Cmd {
	m.t.Helper()
	files, err := filepath.Glob(m.file("/etc/nginx/conf.d/*.conf"))
	testkit.NoError(m.t, err)
	var settings strings.Builder
	for _, file := range files {
		text, err := os.ReadFile(file)
		testkit.NoError(m.t, err)
		settings.Write(text)
	}
	return testkit.Nginx(m.t, strings.NewReplacer("listen 80;", "listen 127.0.0.1:"+m.ports["80"]+";", " 200ms;", " 30s;", " 250ms;", " 30s;").Replace(settings.String()))
}

// prometheus returns the command of Prometheus with its settings. It scrapes more often than they say.
func (m *machine) prometheus() *exec.Cmd {
	m.t.Helper()
	text, err := os.ReadFile(m.file("/etc/prometheus/prometheus.yml"))
	testkit.NoError(m.t, err)
	m.write(m.t, "/etc/prometheus/often.yml", strings.ReplaceAll(string(text), "15s", "1s"))
	return testkit.Prometheus(m.t, m.file("/etc/prometheus/often.yml"), "127.0.0.1:"+m.ports["9090"])
}

// slidegate returns the command of a unit such as slidegate@a, by its unit file.
func (m *machine) slidegate(t *testing.T, unit string) (*exec.Cmd, error) {
	t.Helper()
	prefix, instance, _ := strings.Cut(unit, "@")
	text, err := os.ReadFile(m.file("/etc/systemd/system/" + prefix + "@.service"))
	if err != nil {
		return nil, err
	}
	state := filepath.Join(m.dir, "var", "lib")
	testkit.NoError(t, os.MkdirAll(filepath.Join(state, unit), 0o700))
	replaced := strings.NewReplacer("%i", instance, "%N", unit, "%S", state, "/usr/local/bin/slidegate", slidegate, "/etc/", m.file("/etc/")+"/").Replace(string(text))
	var command []string
	var set, files []string // systemd reads the files last
	for line := range strings.Lines(replaced) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), "=")
		switch name {
		case "ExecStart":
			command = strings.Fields(value)
		case "Environment":
			set = append(set, value)
		case "EnvironmentFile":
			text, err := os.ReadFile(strings.TrimPrefix(value, "-"))
			if err == nil {
				files = append(files, strings.Split(string(text), "\n")...)
			}
		}
	}
	cmd := exec.Command(command[0], command[1:]...)
	cmd.Dir, cmd.Env = m.dir, append(set, slices.DeleteFunc(files, func(line string) bool { return line == "" || line[0] == '#' })...)
	return cmd, nil
}

// load sends requests to nginx, if it runs, until the returned function is called. That returns an error if one of them failed or was
// not decided by the limits.
func (m *machine) load(wanted bool) (stop func() error) {
	if !wanted || m.units["nginx"] == nil {
		return func() error { return nil }
	}
	send, end := clientOf("127.0.0.1:"+m.ports["80"], "127.0.0.2", ""), make(chan struct{})
	var sending sync.WaitGroup
	var failed error
	requests := 0
	sending.Go(func() {
		for {
			r, err := send()
			requests++
			switch {
			case failed != nil:
			case err != nil:
				failed = err
			case r.Header.Get("RateLimit") == "" || r.StatusCode != http.StatusOK && r.StatusCode != http.StatusTooManyRequests:
				failed = fmt.Errorf("during the restart, a request got %s, with the headers %v", r.Status, r.Header)
			}
			select {
			case <-end:
				return
			default:
			}
		}
	})
	return func() error {
		close(end)
		sending.Wait()
		if failed == nil && requests < 2 {
			return errors.New("no request was sent during the restart")
		}
		return failed
	}
}

// post sends JSON to an instance with the token of its clients, and returns the status of the response.
func (m *machine) post(t *testing.T, port, path, body string) int {
	t.Helper()
	text, err := os.ReadFile(m.file("/etc/slidegate/environment"))
	testkit.NoError(t, err)
	request, err := http.NewRequest(http.MethodPost, "http://127.0.0.1:"+m.ports[port]+path, bytes.NewBufferString(body))
	testkit.NoError(t, err)
	request.Header.Set("Content-Type", "application/json")
	for line := range strings.Lines(string(text)) {
		if token, found := strings.CutPrefix(strings.TrimSpace(line), "SLIDEGATE_TOKENS="); found {
			request.Header.Set("Authorization", "Bearer "+token)
		}
	}
	response, err := http.DefaultClient.Do(request)
	testkit.NoError(t, err)
	testkit.NoError(t, response.Body.Close())
	return response.StatusCode
}
