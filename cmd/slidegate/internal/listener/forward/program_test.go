package forward

import (
	"bufio"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/slidegate/slidegate/cmd/slidegate/internal/testkit"
)

// program finds a proxy's program. Without one the test is skipped, unless TEST_REQUIRE names it.
func program(t *testing.T, name string) string {
	t.Helper()
	for _, at := range []string{name, "/usr/sbin/" + name, "/usr/local/sbin/" + name} {
		if path, err := exec.LookPath(at); err == nil {
			return path
		}
	}
	if slices.Contains(strings.Split(os.Getenv("TEST_REQUIRE"), ","), name) {
		t.Fatalf("%s is not installed, and TEST_REQUIRE requires it; make test installs it", name)
	}
	t.Skipf("SKIPPED: %s is not installed, so no real one was tested; make test installs it", name)
	return ""
}

// site is an application behind a real proxy that calls the service.
type site struct {
	*service
	t       *testing.T
	url     string           // the proxy's
	backend *httptest.Server // the service
	reached atomic.Int64     // requests that reached the application
}

// example reads a file of the documentation and replaces its addresses with the tests' own.
func example(t *testing.T, path string, replace map[string]string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("..", "..", "..", "..", "..", "examples", path))
	must(t, err)
	lines := strings.Split(string(text), "\n")
	for old, with := range replace {
		found := 0
		for i, line := range lines {
			if strings.Contains(line, old) && !strings.HasPrefix(strings.TrimSpace(line), "#") {
				lines[i] = strings.ReplaceAll(line, old, with)
				found++
			}
		}
		if found == 0 {
			t.Fatalf("%s: %q to replace not found", path, old)
		}
	}
	return strings.Join(lines, "\n")
}

// startBehind starts an application and a service, and a proxy in front of them. Configure writes the proxy's configuration
// for a port to a folder, and returns the command to run.
func startBehind(t *testing.T, configure func(dir, port, service, app string) *exec.Cmd) *site {
	s := &site{t: t, service: newService(t, Options{}, false)}
	app := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s.reached.Add(1)
		if r.URL.Path == "/own403" {
			w.WriteHeader(http.StatusForbidden)
		}
		fmt.Fprint(w, "hello")
	}))
	t.Cleanup(app.Close)
	mux := http.NewServeMux()
	mux.Handle(Path, s)
	s.backend = httptest.NewServer(mux)
	t.Cleanup(s.backend.Close)
	address := func(url string) string { return strings.TrimPrefix(url, "http://") }
	s.url = "http://" + testkit.RunOnFreePort(t, func(dir, port string) *exec.Cmd {
		return configure(dir, port, address(s.backend.URL), address(app.URL))
	})
	return s
}

// get sends a request through the proxy from an address of this machine, with headers that the client forges.
func (s *site) get(from, method, path string, lines ...string) *http.Response {
	s.t.Helper()
	dialer := &net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(from)}}
	client := &http.Client{Transport: &http.Transport{DialContext: dialer.DialContext, DisableKeepAlives: true}, Timeout: 20 * time.Second}
	r, err := http.NewRequest(method, s.url+path, nil)
	must(s.t, err)
	for _, line := range lines {
		name, value, _ := strings.Cut(line, ": ")
		r.Header.Add(name, value)
	}
	response, err := client.Do(r)
	must(s.t, err)
	_ = response.Body.Close()
	return response
}

// raw sends a request line unchanged, which net/http would not write, and returns the status.
func (s *site) raw(from, line string) int {
	s.t.Helper()
	dialer := &net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(from)}, Timeout: 20 * time.Second}
	conn, err := dialer.Dial("tcp", strings.TrimPrefix(s.url, "http://"))
	must(s.t, err)
	defer conn.Close()
	must(s.t, conn.SetDeadline(time.Now().Add(20*time.Second)))
	_, err = fmt.Fprintf(conn, "%s HTTP/1.1\r\nHost: example.com\r\nContent-Length: 0\r\nConnection: close\r\n\r\n", line)
	must(s.t, err)
	response, err := http.ReadResponse(bufio.NewReader(conn), nil)
	must(s.t, err)
	_ = response.Body.Close()
	return response.StatusCode
}
