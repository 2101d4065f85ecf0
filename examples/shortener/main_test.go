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
		t.Fatal("there is no curl, and TEST_REQUIRE asks for one: install the package curl")
	}
	t.Skip("SKIPPED: there is no curl, so nobody has asked the server: install the package curl")
	return ""
}

// service is the real program, running.
type service struct {
	t       *testing.T
	curl    string
	base    string // what URLs begin with
	process *exec.Cmd
}

// start builds the program and runs it on a port that is free.
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
		if s.process.ProcessState == nil { // the test has failed before it could stop the program
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

// interrupt ends the program as Ctrl-C does, and wants it to end well.
func (s *service) interrupt() {
	s.t.Helper()
	if err := s.process.Process.Signal(syscall.SIGINT); err != nil {
		s.t.Fatal(err)
	}
	if err := s.process.Wait(); err != nil {
		s.t.Errorf("after SIGINT it ended with %v, want exit status 0", err)
	}
}

// answer is what curl printed.
type answer struct {
	status int
	header http.Header
	body   string
}

// ask runs curl.
func (s *service) ask(path string, flags ...string) answer {
	s.t.Helper()
	// --disable ignores the configuration of whoever runs this, and must be the first.
	fixed := []string{"--disable", "--noproxy", "*", "--silent", "--show-error", "--include", "--max-time", "20"}
	command := exec.Command(s.curl, append(append(fixed, flags...), s.base+path)...)
	out, err := command.Output()
	if err != nil {
		s.t.Fatalf("%v failed: %v", command, err)
	}
	response, err := http.ReadResponse(bufio.NewReader(bytes.NewReader(out)), nil)
	if err != nil {
		s.t.Fatalf("%v in %q", err, out)
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err != nil {
		s.t.Fatalf("%v in %q", err, out)
	}
	return answer{response.StatusCode, response.Header, string(body)}
}

// shorten posts a URL, by way of a proxy that writes X-Forwarded-For.
func (s *service) shorten(url, forwardedFor string) answer {
	s.t.Helper()
	return s.ask("/shorten", "--data", url, "--header", "X-Forwarded-For: "+forwardedFor)
}

const target = "https://go.dev/doc/?from=test#top"

func TestTenAMinute(t *testing.T) {
	t.Parallel()
	s := start(t)
	begin := time.Now()
	var first time.Time // when the first link was there
	var link string
	for i := range 15 {
		before := time.Now()
		got := s.shorten(target, "203.0.113.9")
		if i == 0 {
			first = time.Now()
		}
		if i < 10 {
			if got.status != http.StatusCreated {
				t.Fatalf("link %d: %d %s", i, got.status, got.body)
			}
			link = strings.TrimSpace(got.body)
			continue
		}
		checkRefusal(t, got, stretch{begin, first}, stretch{before, time.Now()})
	}

	// What a client writes into the header itself stands to the left of what the proxy has seen, and is not believed. A
	// second proxy on this machine, at the right, is passed over.
	for _, list := range []string{"198.51.100.1, 203.0.113.9", "127.0.0.1, 203.0.113.9", "198.51.100.1, 203.0.113.9, 127.0.0.1"} {
		if got := s.shorten(target, list); got.status != http.StatusTooManyRequests {
			t.Errorf("X-Forwarded-For: %s gives %d, want 429", list, got.status)
		}
	}
	if got := s.shorten(target, "203.0.113.10"); got.status != http.StatusCreated {
		t.Errorf("another client: %d, want 201", got.status)
	}

	// Following links is free.
	code, ok := strings.CutPrefix(link, s.base)
	if !ok {
		t.Fatalf("the link is %q, which does not begin with %s", link, s.base)
	}
	for range 20 {
		got := s.ask(code, "--header", "X-Forwarded-For: 203.0.113.9")
		if got.status != http.StatusFound || got.header.Get("Location") != target || got.header.Get("RateLimit") != "" {
			t.Fatalf("%d %v, want 302 to %s", got.status, got.header, target)
		}
	}
	s.interrupt()
}

// stretch is a time between two moments.
type stretch struct{ from, to time.Time }

// checkRefusal wants a 429 that tells the truth: a link is free again exactly a minute after the first one was made.
func checkRefusal(t *testing.T, got answer, first, refused stretch) {
	t.Helper()
	if got.status != http.StatusTooManyRequests || got.header.Get("Content-Type") != "application/problem+json" {
		t.Fatalf("%d %v, want 429 with a problem", got.status, got.header)
	}
	const slack = 50 * time.Millisecond // between the clock of the program and ours
	seconds := retryAfter(t, got)
	least := wholeSeconds(first.from.Add(time.Minute - slack).Sub(refused.to))
	most := wholeSeconds(first.to.Add(time.Minute + slack).Sub(refused.from))
	if seconds < max(1, least) || seconds > min(60, most) {
		t.Errorf("Retry-After is %d seconds, but it is %d to %d until the quota is free", seconds, least, most)
	}
}

func wholeSeconds(d time.Duration) int { return int((d + time.Second - 1) / time.Second) }

// retryAfter returns the header's value, which the body must repeat.
func retryAfter(t *testing.T, got answer) int {
	t.Helper()
	seconds, err := strconv.Atoi(got.header.Get("Retry-After"))
	if err != nil {
		t.Fatalf("Retry-After: %v", err)
	}
	var problem struct {
		RetryAfter int `json:"retry_after"`
	}
	if err := json.Unmarshal([]byte(got.body), &problem); err != nil || problem.RetryAfter != seconds {
		t.Errorf("Retry-After is %d, but the body says %q (%v)", seconds, got.body, err)
	}
	return seconds
}

// A client that waits for as long as Retry-After says is admitted. The time here is real, because the protocol knows no
// other: the program is another process, and the header counts in whole seconds. With windows of 2 seconds, ten links are
// in the way for 2 seconds at most.
func TestComingBackAsTold(t *testing.T) {
	t.Parallel()
	s := start(t, "-window", "2s")
	for range 5 { // where curl is so slow that ten take more than a window, that is no refusal
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
				t.Errorf("after %d seconds as told: %d, want 201", seconds, got.status)
			}
			s.interrupt()
			return
		}
	}
	t.Fatal("fifty links, and no refusal")
}

// Bad URLs are refused, and count.
func TestBadURLsCount(t *testing.T) {
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
		if got := s.ask(path); got.status != want {
			t.Errorf("GET %s: %d, want %d", path, got.status, want)
		}
	}
	s.interrupt()
}
