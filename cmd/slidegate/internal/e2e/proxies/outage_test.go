package proxies_test

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/slidegate/slidegate/cmd/slidegate/internal/testkit"
)

// maxWait is how long a request may take while the service hangs: the examples wait for 250 ms, and this machine may be busy.
const maxWait = 5 * time.Second

// TestServiceOutageIsShort checks that while the service hangs or is down, requests through the proxies of the documentation pass or are
// refused, as the example says, without a long wait.
func TestServiceOutageIsShort(t *testing.T) {
	for name, test := range map[string]struct {
		front         func(t *testing.T, service, app string) string
		hanging, gone int
	}{
		"nginx":      {func(t *testing.T, service, app string) string { return nginx(t, service, app) }, 200, 200},
		"caddy":      {func(t *testing.T, service, app string) string { return caddy(t, "Caddyfile", service, app) }, 504, 502},
		"caddy open": {func(t *testing.T, service, app string) string { return caddy(t, "open.Caddyfile", service, app) }, 200, 200},
	} {
		t.Run(name, func(t *testing.T) {
			app := startApplication(t)
			service, process := serve(t)
			address := test.front(t, service, app.address())
			for i, want := range []int{200, 200, 200, 429} {
				if got := send(t, address, "POST /login", "a body"); got != want {
					t.Fatalf("login %d: status %d, want %d", i+1, got, want)
				}
			}
			stop(t, process)
			for range 3 {
				began := time.Now()
				if got := send(t, address, "POST /login", "a body"); got != test.hanging {
					t.Errorf("the service hangs: status %d, want %d", got, test.hanging)
				}
				if took := time.Since(began); took > maxWait {
					t.Errorf("the service hangs: a request took %v", took)
				}
			}
			testkit.NoError(t, process.Signal(syscall.SIGCONT))
			testkit.Eventually(t, "the limit to hold again", func() bool { return send(t, address, "POST /login", "a body") == 429 })
			testkit.NoError(t, process.Kill())
			testkit.Eventually(t, "the service to be down", func() bool { return send(t, address, "POST /login", "a body") == test.gone })
			app.mu.Lock()
			defer app.mu.Unlock()
			for i, body := range app.bodies {
				if body != "a body" {
					t.Errorf("request %d reached the application with the body %q, want %q", i+1, body, "a body")
				}
			}
		})
	}
}

// TestRequestsWaitBehindProxies checks that a request waits in line behind proxies whose timeout includes the wait, as the comments in the
// examples say. With the timeout of the examples it would be forwarded, or fail, after 250 ms.
func TestRequestsWaitBehindProxies(t *testing.T) {
	for name, front := range map[string]func(t *testing.T, service, app string) string{
		"nginx": func(t *testing.T, service, app string) string {
			return nginx(t, service, app, "proxy_read_timeout 250ms;", "proxy_read_timeout 10250ms;")
		},
		"caddy": func(t *testing.T, service, app string) string {
			return caddy(t, "Caddyfile", service, app, "response_header_timeout 250ms", "response_header_timeout 10250ms")
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			service, _ := serveWith(t, "policies:\n  login: {match: POST /login, limits: [1/3s token-bucket], wait: 10s}\n")
			address := front(t, service, startApplication(t).address())
			for i, least := range []time.Duration{0, time.Second} {
				began := time.Now()
				if got := send(t, address, "POST /login", "a body"); got != 200 || time.Since(began) < least {
					t.Errorf("request %d: status %d after %v, want 200 after 3s", i+1, got, time.Since(began))
				}
			}
		})
	}
}

// TestApplicationErrorIsNotRetried checks that an error of the application is not taken for one of the service: the request is not repeated.
func TestApplicationErrorIsNotRetried(t *testing.T) {
	app := startApplication(t)
	service, _ := serve(t)
	address := caddy(t, "open.Caddyfile", service, app.address())
	if got := send(t, address, "POST /other", ""); got != 200 {
		t.Fatalf("status %d, want 200", got)
	}
	app.Close()
	if got := send(t, address, "POST /other", ""); got != 502 {
		t.Errorf("the application is down: status %d, want 502", got)
	}
}

// TestForbiddenByNginx checks that what nginx itself forbids stays a 403, whether or not the service was called before, and that
// refusals are 429.
func TestForbiddenByNginx(t *testing.T) {
	app := startApplication(t)
	service, _ := serve(t)
	folder := t.TempDir()
	testkit.NoError(t, os.Mkdir(filepath.Join(folder, "private"), 0o700))
	const inside = "        auth_request /slidegate;\n"
	for name, test := range map[string]struct {
		pairs []string
		line  string
		want  int
	}{
		"deny":   {[]string{inside, inside + "        deny all;\n"}, "POST /other", 403},
		"folder": {[]string{"        proxy_pass http://127.0.0.1:3000;\n", "        root " + folder + ";\n"}, "GET /private/", 403},
	} {
		t.Run(name, func(t *testing.T) {
			address := nginx(t, service, app.address(), test.pairs...)
			if got := send(t, address, test.line, ""); got != test.want {
				t.Errorf("status %d, want %d", got, test.want)
			}
		})
	}
	t.Run("refused", func(t *testing.T) {
		address := nginx(t, service, app.address())
		for i, want := range []int{200, 200, 200, 429} {
			if got := send(t, address, "POST /login", ""); got != want {
				t.Errorf("login %d: status %d, want %d", i+1, got, want)
			}
		}
	})
}

// stop stops a process, and returns when all its threads are stopped.
func stop(t *testing.T, process *os.Process) {
	t.Helper()
	testkit.NoError(t, process.Signal(syscall.SIGSTOP))
	t.Cleanup(func() { _ = process.Signal(syscall.SIGCONT) })
	testkit.Eventually(t, "the process to stop", func() bool {
		threads, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/stat", process.Pid))
		if err != nil || len(threads) == 0 {
			return false
		}
		for _, thread := range threads {
			text, err := os.ReadFile(thread)
			// The state follows the name, which is in parentheses.
			if err != nil || !strings.HasPrefix(string(text[bytes.LastIndexByte(text, ')')+1:]), " T") {
				return false
			}
		}
		return true
	})
}
