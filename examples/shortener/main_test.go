//go:build unix

package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// curl returns the path of curl. Without it the test is skipped, unless TEST_REQUIRE names it.
func curl(t *testing.T) string {
	t.Helper()
	path, err := exec.LookPath("curl")
	if err == nil {
		return path
	}
	if slices.Contains(strings.Split(os.Getenv("TEST_REQUIRE"), ","), "curl") {
		t.Fatal("curl is missing, and TEST_REQUIRE requires it: install the package curl")
	}
	t.Skip("SKIPPED: curl is missing, so the server was not tested: install the package curl")
	return ""
}

// service is the real program, running.
type service struct {
	t       *testing.T
	curl    string
	base    string // base URL
	process *exec.Cmd
}

// start builds the program and runs it on a free port.
func start(t *testing.T, flags ...string) *service {
	t.Helper()
	s := &service{t: t, curl: curl(t)}
	binary := filepath.Join(t.TempDir(), "shortener")
	if out, err := exec.Command("go", "build", "-o", binary, ".").CombinedOutput(); err != nil {
		t.Fatalf("go build: %v\n%s", err, out)
	}
	s.process = exec.Command(binary, append([]string{"-addr", "127.0.0.1:0"}, flags...)...)
	s.process.Stderr = os.Stderr
	out, err := s.process.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := s.process.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if s.process.ProcessState == nil { // the test failed before it could stop the program
			s.process.Process.Kill() //nolint:errcheck // there is nothing more to do
			s.process.Wait()         //nolint:errcheck // it was killed
		}
	})
	line, err := bufio.NewReader(out).ReadString('\n')
	base, ok := strings.CutPrefix(strings.TrimSpace(line), "listening on ")
	if err != nil || !ok {
		t.Fatalf("it printed %q, %v", line, err)
	}
	s.base = base
	return s
}

// interrupt ends the program as Ctrl-C does, and checks its exit status.
func (s *service) interrupt() {
	s.t.Helper()
	if err := s.process.Process.Signal(syscall.SIGINT); err != nil {
		s.t.Fatal(err)
	}
	if err := s.process.Wait(); err != nil {
		s.t.Errorf("after SIGINT it ended with %v, want exit status 0", err)
	}
}

// response is what curl printed.
type response struct {
	status int
	header http.Header
	body   string
}

// get runs curl.
func (s *service) get(path string, flags ...string) response {
	s.t.Helper()
	// --disable ignores the user's curl configuration, and must be the first option.
	fixed := []string{"--disable", "--noproxy", "*", "--silent", "--show-error", "--include", "--max-time", "20"}
	command := exec.Command(s.curl, append(append(fixed, flags...), s.base+path)...)
	out, err := command.Output()
	if err != nil {
		s.t.Fatalf("%v failed: %v", command, err)
	}
	parsed, err := http.ReadResponse(bufio.NewReader(bytes.NewReader(out)), nil)
	if err != nil {
		s.t.Fatalf("%v in %q", err, out)
	}
	defer parsed.Body.Close()
	body, err := io.ReadAll(parsed.Body)
	if err != nil {
		s.t.Fatalf("%v in %q", err, out)
	}
	return response{parsed.StatusCode, parsed.Header, string(body)}
}

// shorten posts a URL as if through a proxy that writes X-Forwarded-For.
func (s *service) shorten(url, forwardedFor string) response {
	s.t.Helper()
	return s.get("/shorten", "--data", url, "--header", "X-Forwarded-For: "+forwardedFor)
}

const target = "https://go.dev/doc/?from=test#top"

func TestTenPerMinute(t *testing.T) {
	t.Parallel()
	s := start(t)
	begin := time.Now()
	var first time.Time // when the first link was created
	var link string
	for i := range 15 {
		before := time.Now()
		got := s.shorten(target, "203.0.113.9")
		if i == 0 {
			first = time.Now()
		}
		if i < 10 {
			if got.status != http.StatusCreated {
				t.Fatalf("link %d: got %d %s, want status 201", i, got.status, got.body)
			}
			link = strings.TrimSpace(got.body)
			continue
		}
		checkRefusal(t, got, interval{begin, first}, interval{before, time.Now()})
	}

	// Entries that a client writes into the header itself are to the left of what the proxy has added, and
	// are not believed. A second proxy on this machine, at the right, is skipped.
	for _, list := range []string{"198.51.100.1, 203.0.113.9", "127.0.0.1, 203.0.113.9", "198.51.100.1, 203.0.113.9, 127.0.0.1"} {
		if got := s.shorten(target, list); got.status != http.StatusTooManyRequests {
			t.Errorf("X-Forwarded-For: %s gives %d, want 429", list, got.status)
		}
	}
	if got := s.shorten(target, "203.0.113.10"); got.status != http.StatusCreated {
		t.Errorf("another client: %d, want 201", got.status)
	}

	// Following links is not limited.
	code, ok := strings.CutPrefix(link, s.base)
	if !ok {
		t.Fatalf("the link is %q, which does not begin with %s", link, s.base)
	}
	for range 20 {
		got := s.get(code, "--header", "X-Forwarded-For: 203.0.113.9")
		if got.status != http.StatusFound || got.header.Get("Location") != target || got.header.Get("RateLimit") != "" {
			t.Fatalf("%d %v, want 302 to %s", got.status, got.header, target)
		}
	}
	s.interrupt()
}

// interval is the time between two instants.
type interval struct{ from, to time.Time }

// checkRefusal checks for an exact 429: a link is free again exactly a minute after the first one was
// created.
func checkRefusal(t *testing.T, got response, first, refused interval) {
	t.Helper()
	if got.status != http.StatusTooManyRequests || got.header.Get("Content-Type") != "application/problem+json" {
		t.Fatalf("%d %v, want 429 with a problem", got.status, got.header)
	}
	const slack = 50 * time.Millisecond // between the program's clock and the test's
	seconds := retryAfter(t, got)
	least := wholeSeconds(first.from.Add(time.Minute - slack).Sub(refused.to))
	most := wholeSeconds(first.to.Add(time.Minute + slack).Sub(refused.from))
	if seconds < max(1, least) || seconds > min(60, most) {
		t.Errorf("Retry-After is %d seconds, want %d to %d", seconds, least, most)
	}
}

func wholeSeconds(d time.Duration) int { return int((d + time.Second - 1) / time.Second) }

// retryAfter returns the header's value, which the body must repeat.
func retryAfter(t *testing.T, got response) int {
	t.Helper()
	seconds, err := strconv.Atoi(got.header.Get("Retry-After"))
	if err != nil {
		t.Fatalf("Retry-After: %v", err)
	}
	var problem struct {
		RetryAfter int `json:"retry_after"`
	}
	if err := json.Unmarshal([]byte(got.body), &problem); err != nil || problem.RetryAfter != seconds {
		t.Errorf("Retry-After is %d, but the body is %q (%v)", seconds, got.body, err)
	}
	return seconds
}

// A client that waits for Retry-After is admitted. The time here is real, because the protocol has no other:
// the program is another process, and the header counts in whole seconds. With windows of 2 seconds, ten
// links block for 2 seconds at most.
func TestComingBackAtRetryAfter(t *testing.T) {
	t.Parallel()
	s := start(t, "-window", "2s")
	for range 5 { // if curl is so slow that ten requests take more than a window, there is no refusal
		for range 10 {
			got := s.shorten(target, "203.0.113.9")
			if got.status == http.StatusCreated {
				continue
			}
			seconds := retryAfter(t, got)
			if got.status != http.StatusTooManyRequests || seconds < 1 || seconds > 2 {
				t.Fatalf("%d with Retry-After %d, want 429 with 1 to 2", got.status, seconds)
			}
			<-time.After(time.Duration(seconds) * time.Second)
			if got := s.shorten(target, "203.0.113.9"); got.status != http.StatusCreated {
				t.Errorf("after Retry-After of %d seconds: %d, want 201", seconds, got.status)
			}
			s.interrupt()
			return
		}
	}
	t.Fatal("fifty links, and no refusal")
}

// Invalid URLs are rejected, and count.
func TestInvalidURLsCount(t *testing.T) {
	t.Parallel()
	s := start(t)
	for i, url := range []string{"", "go.dev", "/path", "//go.dev", "ftp://go.dev", "javascript:alert(1)", "https://", "http://a b", "https://go.dev:http", "%zz"} {
		if got := s.shorten(url, "203.0.113.9"); got.status != http.StatusBadRequest {
			t.Errorf("%d: %q gives %d, want 400", i, url, got.status)
		}
	}
	if got := s.shorten(target, "203.0.113.9"); got.status != http.StatusTooManyRequests {
		t.Errorf("after ten bad ones: %d, want 429", got.status)
	}
	if got := s.shorten("https://go.dev/"+strings.Repeat("x", 2048), "203.0.113.10"); got.status != http.StatusRequestEntityTooLarge {
		t.Errorf("a long one: %d, want 413", got.status)
	}
	for path, want := range map[string]int{"/": 404, "/missing": 404, "/a/b": 404, "/shorten": 404} {
		if got := s.get(path); got.status != want {
			t.Errorf("GET %s: %d, want %d", path, got.status, want)
		}
	}
	s.interrupt()
}
