package main

import (
	"bufio"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/slidegate/slidegate/cmd/slidegate/internal/testkit"
)

// runningService is the program running as a service.
type runningService struct {
	t         *testing.T
	command   *exec.Cmd
	addresses map[string]string // by the name of the listener

	mu    sync.Mutex
	lines []string      // of standard error
	news  chan struct{} // signals lines that await has not seen
	ended chan struct{}
}

// startServe starts the program with all listeners on free ports, and waits until it has printed their addresses.
func startServe(t *testing.T, args ...string) *runningService {
	t.Helper()
	return startServeWith(t, nil, args...)
}

// startServeWith is like startServe, with additional environment variables.
func startServeWith(t *testing.T, env []string, args ...string) *runningService {
	t.Helper()
	free := []string{"serve", "--http", "127.0.0.1:0", "--grpc", "127.0.0.1:0", "--resp", "127.0.0.1:0", "--admin", "127.0.0.1:0"}
	s := launch(t, env, append(free, args...)...)
	last, where := "/v1/allow", `(?m)^  (http|grpc|resp|admin|metrics) +(?:https?://)?(127\.0\.0\.1:\d+)` // how to try it
	if slices.Contains(args, "json") {
		last, where = `"listener":"admin"`, `"listener":"([a-z]+)","address":"(127\.0\.0\.1:\d+)"`
	}
	if !s.await(last) {
		t.Fatalf("the service did not start:\n%s", s.text())
	}
	for _, found := range regexp.MustCompile(where).FindAllStringSubmatch(s.text(), -1) {
		s.addresses[found[1]] = found[2]
	}
	return s
}

// launch starts the program without the variables of Slidegate and OpenTelemetry, except for those in env.
func launch(t *testing.T, env []string, args ...string) *runningService {
	t.Helper()
	command := exec.Command(program, args...)
	command.Env = append(slices.DeleteFunc(os.Environ(), func(v string) bool {
		return strings.HasPrefix(v, "SLIDEGATE_") || strings.HasPrefix(v, "OTEL_")
	}), env...)
	return follow(t, command)
}

// follow starts a command and collects its standard error.
func follow(t *testing.T, command *exec.Cmd) *runningService {
	t.Helper()
	s := &runningService{t: t, command: command, addresses: map[string]string{}, news: make(chan struct{}, 1), ended: make(chan struct{})}
	output, err := s.command.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := s.command.Start(); err != nil {
		t.Fatal(err)
	}
	go func() {
		defer close(s.ended)
		for lines := bufio.NewScanner(output); lines.Scan(); {
			s.mu.Lock()
			s.lines = append(s.lines, lines.Text())
			s.mu.Unlock()
			select {
			case s.news <- struct{}{}:
			default: // already signaled
			}
		}
		_ = s.command.Wait() // see status
	}()
	t.Cleanup(s.kill)
	return s
}

// kill ends the process without a clean shutdown.
func (s *runningService) kill() {
	_ = s.command.Process.Kill() // it may have ended
	<-s.ended
}

func (s *runningService) hasEnded() bool {
	select {
	case <-s.ended:
		return true
	default:
		return false
	}
}

// text returns the output so far.
func (s *runningService) text() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return strings.Join(s.lines, "\n")
}

func (s *runningService) printed(text string) bool { return strings.Contains(s.text(), text) }

// signal sends a signal.
func (s *runningService) signal(signal os.Signal) {
	s.t.Helper()
	if err := s.command.Process.Signal(signal); err != nil {
		s.t.Fatal(err)
	}
}

// status waits until the process has ended, and returns the exit status.
func (s *runningService) status() int {
	s.t.Helper()
	select {
	case <-s.ended:
	case <-time.After(time.Minute):
		s.t.Fatalf("the process did not end:\n%s", s.text())
	}
	return s.command.ProcessState.ExitCode()
}

// mustEnd sends a signal and expects a clean shutdown.
func (s *runningService) mustEnd(signal os.Signal) {
	s.t.Helper()
	s.signal(signal)
	if status := s.status(); status != exitOK {
		s.t.Errorf("got status %d, want %d:\n%s", status, exitOK, s.text())
	}
}

// url returns the URL of a listener.
func (s *runningService) url(listener string) string { return "http://" + s.addresses[listener] }

// allow requests one unit and returns the status of the response.
func (s *runningService) allow(key string) int {
	s.t.Helper()
	body, err := json.Marshal(map[string]string{"key": key})
	if err != nil {
		s.t.Fatal(err)
	}
	status, _ := s.post("/v1/allow", string(body))
	return status
}

func (s *runningService) post(path, body string) (int, string) {
	s.t.Helper()
	got, err := http.Post(s.url("http")+path, "application/json", strings.NewReader(body))
	if err != nil {
		s.t.Fatalf("no response: %v\n%s", err, s.text())
	}
	defer got.Body.Close()
	text, err := io.ReadAll(got.Body)
	if err != nil {
		s.t.Fatal(err)
	}
	return got.StatusCode, string(text)
}

// page gets a page from a listener.
func (s *runningService) page(listener, path string) (int, string) {
	s.t.Helper()
	got, err := http.Get(s.url(listener) + path)
	if err != nil {
		s.t.Fatal(err)
	}
	defer got.Body.Close()
	text, err := io.ReadAll(got.Body)
	if err != nil {
		s.t.Fatal(err)
	}
	return got.StatusCode, string(text)
}

// useAll takes all n units of a limit, and checks that the next request is refused.
func (s *runningService) useAll(key string, n int) {
	s.t.Helper()
	for i := range n {
		if got := s.allow(key); got != http.StatusOK {
			s.t.Fatalf("request %d of %d: got %d, want 200", i+1, n, got)
		}
	}
	s.refused(key)
}

func (s *runningService) refused(key string) {
	s.t.Helper()
	if got := s.allow(key); got != http.StatusTooManyRequests {
		s.t.Errorf("key without units left: got %d, want 429", got)
	}
}

// longWait is the timeout for conditions that are certain to occur.
const longWait = 30 * time.Second

// await waits until the output contains all texts, or the program has ended. It reports whether it contains them, and fails the test
// if neither happens.
func (s *runningService) await(texts ...string) (found bool) {
	s.t.Helper()
	late := time.After(longWait)
	for {
		over := s.hasEnded() // checked before the lines, since none follow the end
		if !slices.ContainsFunc(texts, func(text string) bool { return !s.printed(text) }) {
			return true
		}
		if over {
			return false
		}
		select {
		case <-s.news:
		case <-s.ended:
		case <-late:
			s.t.Fatalf("%q was never printed:\n%s", texts, s.text())
		}
	}
}

// awaitPage gets a page from a listener until it contains a text. The requests themselves are the wait.
func (s *runningService) awaitPage(listener, path, text string) {
	s.t.Helper()
	for end := time.Now().Add(longWait); ; {
		_, page := s.page(listener, path)
		if strings.Contains(page, text) {
			return
		}
		if time.Now().After(end) {
			s.t.Fatalf("%s never appeared on %s:\n%s", text, path, page)
		}
	}
}

// need skips the test if a program is not installed, or fails it if TEST_REQUIRE names the program.
func need(t *testing.T, name string) string {
	t.Helper()
	path, err := exec.LookPath(name)
	if err == nil {
		return path
	}
	testkit.Missing(t, name, name+" is not installed")
	return ""
}

// callBriefly is like call, for a service that should fail to start; if it starts, it is ended.
func callBriefly(t *testing.T, args ...string) result {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	return callWith(ctx, strings.NewReader(""), args...)
}
