// Package proxies_test runs the program behind the proxies of the documentation, with an application behind them.
package proxies_test

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/slidegate/slidegate/cmd/slidegate/internal/testkit"
)

// slidegate is the real binary, built once.
var slidegate string

func TestMain(m *testing.M) { testkit.MainWithProgram(m, filepath.Join("..", "..", ".."), &slidegate) }

// application responds to every request, and records its target.
type application struct {
	*httptest.Server
	mu     sync.Mutex
	logins []string // the targets that count as /login
	bodies []string
	count  int
}

func startApplication(t *testing.T) *application {
	a := &application{}
	a.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		a.mu.Lock()
		defer a.mu.Unlock()
		a.count++
		a.bodies = append(a.bodies, string(body))
		if isLogin(r.RequestURI) {
			a.logins = append(a.logins, r.RequestURI)
		}
		fmt.Fprint(w, "hello")
	}))
	t.Cleanup(a.Close)
	return a
}

// isLogin reports whether servers in some language take a target for /login: without query and fragment, with backslashes for
// slashes, as the URL class of browsers and Node does, percent-decoded once, and with dots and empty segments resolved.
func isLogin(target string) bool {
	target, _, _ = strings.Cut(target, "#")
	target, _, _ = strings.Cut(target, "?")
	if _, rest, absolute := strings.Cut(target, "://"); absolute {
		_, rest, _ = strings.Cut(rest, "/")
		target = "/" + rest
	}
	for _, read := range []func(string) string{
		func(s string) string { return s },
		func(s string) string { return strings.ReplaceAll(s, `\`, "/") },
	} {
		text := read(target)
		if decoded, err := url.PathUnescape(text); err == nil {
			text = decoded
		}
		if strings.HasSuffix(text, "/") {
			continue // a separate path, which the documentation mentions
		}
		if path.Clean(text) == "/login" {
			return true
		}
	}
	return false
}

// reached returns how many requests reached the application, and the targets that count as /login.
func (a *application) reached() (count int, logins []string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.count, slices.Clone(a.logins)
}

// address returns the address of the application.
func (a *application) address() string { return strings.TrimPrefix(a.URL, "http://") }

// startSlidegate starts the program, and returns its address and the process.
func startSlidegate(t *testing.T, args ...string) (address string, process *os.Process) {
	t.Helper()
	p := testkit.Run(t, exec.Command(slidegate, args...))
	at := regexp.MustCompile(`(?m)^  (?:http|listens) +http://(127\.0\.0\.1:\d+)`)
	p.Await(t, "an address to listen on", func() bool { return at.MatchString(p.Output.String()) })
	return at.FindStringSubmatch(p.Output.String())[1], p.Process
}

const loginPolicy = "policies:\n  login: {match: POST /login, limits: [3/1h fixed-window anchor=first]}\n"

// serve starts the service with a limit of 3 logins.
func serve(t *testing.T) (address string, process *os.Process) {
	t.Helper()
	return serveWith(t, loginPolicy)
}

// serveWith starts the service with policies.
func serveWith(t *testing.T, policies string) (address string, process *os.Process) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "slidegate.yaml")
	testkit.NoError(t, os.WriteFile(file, []byte(policies), 0o600))
	return startSlidegate(t, "serve", "--config", file, "--http", "127.0.0.1:0", "--grpc", "off", "--resp", "off", "--admin", "off")
}

// nginx runs the example for nginx, with some of its text replaced.
func nginx(t *testing.T, service, app string, pairs ...string) (address string) {
	t.Helper()
	return testkit.RunOnFreePort(t, func(_, port string) *exec.Cmd {
		text := testkit.Example(t, "nginx/slidegate.conf", slices.Concat(pairs, []string{
			"    listen 80;", "    listen 127.0.0.1:" + port + ";", "server 127.0.0.1:8080;", "server " + service + ";", "http://127.0.0.1:3000;", "http://" + app + ";"})...)
		return testkit.Nginx(t, text)
	})
}

// caddy runs an example for Caddy.
func caddy(t *testing.T, file, service, app string, pairs ...string) (address string) {
	t.Helper()
	return testkit.RunOnFreePort(t, func(_, port string) *exec.Cmd {
		text := testkit.Example(t, "caddy/"+file, slices.Concat(pairs, []string{"\n:80 {", "\nhttp://127.0.0.1:" + port + " {",
			" 127.0.0.1:8080 {\n\t\t\tmethod", " " + service + " {\n\t\t\tmethod", " 127.0.0.1:3000\n", " " + app + "\n"})...)
		return testkit.Caddy(t, text)
	})
}

// send sends a request line as it is, which net/http would not do, and returns the status of the response.
func send(t *testing.T, address, line, body string) int {
	t.Helper()
	conn, err := net.DialTimeout("tcp", address, testkit.Patience)
	testkit.NoError(t, err)
	defer conn.Close()
	testkit.NoError(t, conn.SetDeadline(time.Now().Add(testkit.Patience)))
	_, err = fmt.Fprintf(conn, "%s HTTP/1.1\r\nHost: %s\r\nContent-Length: %d\r\nConnection: close\r\n\r\n%s", line, address, len(body), body)
	testkit.NoError(t, err)
	response, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		t.Fatalf("no response to %q: %v", line, err)
	}
	_ = response.Body.Close()
	return response.StatusCode
}
