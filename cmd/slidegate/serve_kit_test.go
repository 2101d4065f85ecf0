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
)

// serving is the program as a service.
type serving struct {
	t       *testing.T
	command *exec.Cmd
	door    map[string]string // where it listens, by the door's name

	mu    sync.Mutex
	lines []string      // of standard error
	news  chan struct{} // has a word in it when there are lines that await has not seen
	ended chan struct{}
}

// startServe starts the program with all doors on free ports, and waits until it says where they are.
func startServe(t *testing.T, args ...string) *serving {
	t.Helper()
	return startServeWith(t, nil, args...)
}

// startServeWith is startServe with more variables in the environment.
func startServeWith(t *testing.T, env []string, args ...string) *serving {
	t.Helper()
	free := []string{"serve", "--http", "127.0.0.1:0", "--grpc", "127.0.0.1:0", "--resp", "127.0.0.1:0", "--admin", "127.0.0.1:0"}
	s := launch(t, env, append(free, args...)...)
	last, where := "/v1/allow", `(?m)^  (http|grpc|resp|admin|metrics) +(?:https?://)?(127\.0\.0\.1:\d+)` // how to try it
	if slices.Contains(args, "json") {
		last, where = `"listener":"admin"`, `"listener":"([a-z]+)","address":"(127\.0\.0\.1:\d+)"`
	}
	if !s.await(last) {
		t.Fatalf("it does not run:\n%s", s.text())
	}
	for _, found := range regexp.MustCompile(where).FindAllStringSubmatch(s.text(), -1) {
		s.door[found[1]] = found[2]
	}
	return s
}

// launch starts the program.
func launch(t *testing.T, env []string, args ...string) *serving {
	t.Helper()
	command := exec.Command(program, args...)
	command.Env = append(slices.DeleteFunc(os.Environ(), func(v string) bool {
		return strings.HasPrefix(v, "SLIDEGATE_") || strings.HasPrefix(v, "OTEL_")
	}), env...)
	return follow(t, command)
}

// follow starts a command and collects what it says.
func follow(t *testing.T, command *exec.Cmd) *serving {
	t.Helper()
	s := &serving{t: t, command: command, door: map[string]string{}, news: make(chan struct{}, 1), ended: make(chan struct{})}
	said, err := s.command.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := s.command.Start(); err != nil {
		t.Fatal(err)
	}
	go func() {
		defer close(s.ended)
		for lines := bufio.NewScanner(said); lines.Scan(); {
			s.mu.Lock()
			s.lines = append(s.lines, lines.Text())
			s.mu.Unlock()
			select {
			case s.news <- struct{}{}:
			default: // the word is there already
			}
		}
		_ = s.command.Wait() // see status
	}()
	t.Cleanup(s.kill)
	return s
}

// kill ends it as a power cut does.
func (s *serving) kill() {
	_ = s.command.Process.Kill() // it may be over
	<-s.ended
}

func (s *serving) over() bool {
	select {
	case <-s.ended:
		return true
	default:
		return false
	}
}

// text is all that it said so far.
func (s *serving) text() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return strings.Join(s.lines, "\n")
}

func (s *serving) said(text string) bool { return strings.Contains(s.text(), text) }

// signal sends a signal.
func (s *serving) signal(signal os.Signal) {
	s.t.Helper()
	if err := s.command.Process.Signal(signal); err != nil {
		s.t.Fatal(err)
	}
}

// status waits for the end and returns the exit status.
func (s *serving) status() int {
	s.t.Helper()
	select {
	case <-s.ended:
	case <-time.After(time.Minute):
		s.t.Fatalf("it does not end:\n%s", s.text())
	}
	return s.command.ProcessState.ExitCode()
}

// mustEnd sends a signal and expects an orderly end.
func (s *serving) mustEnd(signal os.Signal) {
	s.t.Helper()
	s.signal(signal)
	if status := s.status(); status != exitOK {
		s.t.Errorf("status %d:\n%s", status, s.text())
	}
}

// url is the one of a door.
func (s *serving) url(door string) string { return "http://" + s.door[door] }

// allow asks for a unit and returns the answer's status.
func (s *serving) allow(key string) int {
	s.t.Helper()
	question, err := json.Marshal(map[string]string{"key": key})
	if err != nil {
		s.t.Fatal(err)
	}
	status, _ := s.post("/v1/allow", string(question))
	return status
}

func (s *serving) post(path, body string) (int, string) {
	s.t.Helper()
	got, err := http.Post(s.url("http")+path, "application/json", strings.NewReader(body))
	if err != nil {
		s.t.Fatalf("no answer: %v\n%s", err, s.text())
	}
	defer got.Body.Close()
	text, err := io.ReadAll(got.Body)
	if err != nil {
		s.t.Fatal(err)
	}
	return got.StatusCode, string(text)
}

// page reads a page of a door.
func (s *serving) page(door, path string) (int, string) {
	s.t.Helper()
	got, err := http.Get(s.url(door) + path)
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

// use takes all units of a limit of n, and sees that the next is refused.
func (s *serving) use(key string, n int) {
	s.t.Helper()
	for i := range n {
		if got := s.allow(key); got != http.StatusOK {
			s.t.Fatalf("%d of %d: %d", i+1, n, got)
		}
	}
	s.refused(key)
}

func (s *serving) refused(key string) {
	s.t.Helper()
	if got := s.allow(key); got != http.StatusTooManyRequests {
		s.t.Errorf("a key that has used all: %d", got)
	}
}

// longWait is how long a test waits for what it is sure of.
const longWait = 30 * time.Second

// await waits until the program has said all of texts, or is over, which it tells. It fails the test if neither comes.
func (s *serving) await(texts ...string) (said bool) {
	s.t.Helper()
	late := time.After(longWait)
	for {
		over := s.over() // before the lines: there are none after it
		if !slices.ContainsFunc(texts, func(text string) bool { return !s.said(text) }) {
			return true
		}
		if over {
			return false
		}
		select {
		case <-s.news:
		case <-s.ended:
		case <-late:
			s.t.Fatalf("it never said %q:\n%s", texts, s.text())
		}
	}
}

// awaitPage reads a page of a door until a text is on it; to ask is to wait for it.
func (s *serving) awaitPage(door, path, text string) {
	s.t.Helper()
	for end := time.Now().Add(longWait); ; {
		_, page := s.page(door, path)
		if strings.Contains(page, text) {
			return
		}
		if time.Now().After(end) {
			s.t.Fatalf("%s was never on %s:\n%s", text, path, page)
		}
	}
}

// need skips the test without a program, unless TEST_REQUIRE names it: then the test fails.
func need(t *testing.T, name string) string {
	t.Helper()
	path, err := exec.LookPath(name)
	if err == nil {
		return path
	}
	if slices.Contains(strings.Split(os.Getenv("TEST_REQUIRE"), ","), name) {
		t.Fatalf("there is no %s, and TEST_REQUIRE asks for it", name)
	}
	t.Skipf("SKIPPED: there is no %s", name)
	return ""
}

// callBriefly is call for a service that should not run: if it does, it is ended.
func callBriefly(t *testing.T, args ...string) result {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	return callWith(ctx, strings.NewReader(""), args...)
}
