package testkit

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/slidegate/slidegate/internal/testkit"
)

// Program finds a program that tools/deps installs.
func Program(t testing.TB, name string) string {
	t.Helper()
	path := Installed(name)
	if path == "" {
		t.Fatalf("%s not found; make test installs it", name)
	}
	return path
}

// Installed returns the path of a program, also if only root's path has it; empty if it is not installed.
func Installed(name string) string {
	for _, at := range []string{name, "/usr/sbin/" + name, "/usr/local/sbin/" + name} {
		if path, err := exec.LookPath(at); err == nil {
			return path
		}
	}
	return ""
}

// FreeAddress returns a free local address, for programs that cannot choose one themselves.
func FreeAddress(t testing.TB) string {
	t.Helper()
	return testkit.FreeAddress(t)
}

// Output collects the output of a program. It can be read while the program runs.
type Output struct {
	mu   sync.Mutex
	text bytes.Buffer
}

// Write appends to the output.
func (o *Output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.text.Write(p)
}

// String returns the output so far.
func (o *Output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.text.String()
}

// nginxMain is the rest of an nginx configuration with which nginx runs as one process in a folder.
const nginxMain = `daemon off; master_process off; worker_processes 1; pid %[1]s/nginx.pid; error_log stderr;
events { worker_connections 1024; }
http {
  access_log off; client_body_temp_path %[1]s/body; proxy_temp_path %[1]s/proxy; fastcgi_temp_path %[1]s/fastcgi;
  uwsgi_temp_path %[1]s/uwsgi; scgi_temp_path %[1]s/scgi; keepalive_requests 1000000;
  include %[1]s/slidegate.conf;
}
`

// Nginx returns the command of an nginx with these settings in its http block.
func Nginx(t testing.TB, settings string) *exec.Cmd {
	t.Helper()
	dir := t.TempDir()
	NoError(t, os.WriteFile(filepath.Join(dir, "slidegate.conf"), []byte(settings), 0o600))
	NoError(t, os.WriteFile(filepath.Join(dir, "nginx.conf"), fmt.Appendf(nil, nginxMain, dir), 0o600))
	return exec.Command(Program(t, "nginx"), "-p", dir, "-e", "stderr", "-c", filepath.Join(dir, "nginx.conf"))
}

// Caddy returns the command of a Caddy with these sites, for Run.
func Caddy(t testing.TB, sites string) *exec.Cmd {
	t.Helper()
	dir := t.TempDir()
	path := filepath.Join(dir, "Caddyfile")
	NoError(t, os.WriteFile(path, []byte("{\n\tadmin off\n\tauto_https off\n}\n"+sites), 0o600))
	cmd := exec.Command(Program(t, "caddy"), "run", "--adapter", "caddyfile", "--config", path)
	cmd.Env = []string{"HOME=" + dir, "XDG_DATA_HOME=" + dir, "XDG_CONFIG_HOME=" + dir}
	return cmd
}

// Example returns a file of the examples in which, in each of the pairs, the second text replaces the first.
func Example(t testing.TB, name string, pairs ...string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("..", "..", "..", "..", "..", "examples", name))
	NoError(t, err)
	for i := 0; i < len(pairs); i += 2 {
		if !strings.Contains(string(text), pairs[i]) {
			t.Fatalf("%s: no %q to replace", name, pairs[i])
		}
	}
	return strings.NewReplacer(pairs...).Replace(string(text))
}

// Prometheus returns the command of a Prometheus with a configuration file.
func Prometheus(t testing.TB, config, address string) *exec.Cmd {
	t.Helper()
	return exec.Command(Program(t, "prometheus"), "--config.file="+config, "--storage.tsdb.path="+t.TempDir(), "--web.listen-address="+address, "--log.level=warn")
}
