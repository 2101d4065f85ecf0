package forward

import (
	"bufio"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"os/exec"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/slidegate/slidegate/cmd/slidegate/internal/testkit"
)

// need skips the test if a proxy's program is not installed, or fails it if TEST_REQUIRE names the program.
func need(t *testing.T, name string) {
	t.Helper()
	if testkit.Installed(name) == "" {
		testkit.Missing(t, name, name+" is not installed, so no real one was tested; make test installs it")
	}
}

// site is an application behind a real proxy that calls the service.
type site struct {
	*service
	t       *testing.T
	url     string           // the proxy's
	backend *httptest.Server // the service
	reached atomic.Int64     // requests that reached the application
}

// startBehind starts an application and a service, and a proxy in front of them. Configure returns the command of the
// proxy.
func startBehind(t *testing.T, configure func(port, service, app string) *exec.Cmd) *site {
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
	s.url = "http://" + testkit.RunOnFreePort(t, func(_, port string) *exec.Cmd {
		return configure(port, address(s.backend.URL), address(app.URL))
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
