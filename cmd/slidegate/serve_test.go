package main

import (
	"bufio"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// A newcomer's first minute: the program prints its listeners and a command to try. The command is admitted until the quota is used,
// and then refused with the exact Retry-After.
func TestFirstRun(t *testing.T) {
	need(t, "curl")
	s := startServe(t, "--limit", "3/1h sliding-log")
	for _, listener := range []string{"http", "grpc", "resp", "admin"} {
		if s.addresses[listener] == "" {
			t.Errorf("the address of %s is missing:\n%s", listener, s.text())
		}
	}
	found := regexp.MustCompile(`(?m)^  (curl .*)$`).FindStringSubmatch(s.text())
	if found == nil {
		t.Fatalf("the command to try is missing:\n%s", s.text())
	}
	var last string
	for i, want := range []string{"200 OK", "200 OK", "200 OK", "429 Too Many Requests"} {
		out, err := exec.Command("sh", "-c", found[1]).Output()
		if err != nil {
			t.Fatalf("%s failed: %v", found[1], err)
		}
		last = string(out)
		if !strings.HasPrefix(last, "HTTP/1.1 "+want) {
			t.Fatalf("request %d: got %s, want %s", i, last, want)
		}
	}
	seconds, err := strconv.ParseInt(regexp.MustCompile(`(?m)^Retry-After: (\d+)\r$`).FindStringSubmatch(last)[1], 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	// A later peek must give the same time of admission: by the clock of the service, the remaining wait has shrunk by the time that
	// has passed.
	var first, second struct {
		At    int64 `json:"at_us"`
		Retry int64 `json:"retry_after_us"`
	}
	_, body, _ := strings.Cut(last, "\r\n\r\n")
	if err := json.Unmarshal([]byte(body), &first); err != nil {
		t.Fatalf("invalid decision: %v: %s", err, body)
	}
	_, text := s.post("/v1/peek", `{"key":"me"}`)
	if err := json.Unmarshal([]byte(text), &second); err != nil {
		t.Fatalf("invalid decision: %v: %s", err, text)
	}
	if want := (first.Retry + 999_999) / 1_000_000; seconds != want || seconds > 3600 {
		t.Errorf("got Retry-After: %d, want %d microseconds, rounded up", seconds, first.Retry)
	}
	if first.At+first.Retry != second.At+second.Retry || second.At <= first.At {
		t.Errorf("got retry-after %[2]d at %[1]d and %[4]d at %[3]d, want the same time of admission", first.At, first.Retry, second.At, second.Retry)
	}
	if s.printed("domains") {
		t.Errorf("got a line about domains without any:\n%s", s.text())
	}
	s.mustEnd(os.Interrupt)
}

// Neither a clean shutdown nor a crash forgets anything.
func TestStateSurvivesRestart(t *testing.T) {
	path := filepath.Join(t.TempDir(), "state")
	begin := func() *runningService {
		t.Helper()
		return startServe(t, "--limit", "3/1h sliding-log", "--state", path)
	}
	s := begin()
	s.useAll("ann", 3)
	s.mustEnd(syscall.SIGTERM)

	s = begin()
	s.refused("ann")
	s.useAll("bob", 3)
	s.kill()

	s = begin()
	s.refused("ann")
	s.refused("bob")
	s.useAll("cid", 3)
	s.beginRequest() // never finishes, so the drain needs the second SIGTERM
	s.signal(syscall.SIGTERM)
	s.await("draining")
	s.mustEnd(syscall.SIGTERM)

	s = begin()
	s.refused("cid")
	s.mustEnd(syscall.SIGTERM)
}

// A second process with the same folder fails and names the process that uses it, however the path is written. Once the first has
// ended, cleanly or not, the next one starts.
func TestStateIsLocked(t *testing.T) {
	folder := t.TempDir()
	path := filepath.Join(folder, "state")
	link := filepath.Join(t.TempDir(), "link")
	if err := os.Symlink(folder, link); err != nil {
		t.Fatal(err)
	}
	for _, end := range []func(*runningService){(*runningService).kill, func(s *runningService) { s.mustEnd(syscall.SIGTERM) }} {
		s := startServe(t, "--limit", "3/1h", "--state", path)
		s.allow("ann")
		for _, other := range []string{path, folder + "/./state", filepath.Join(link, "state")} {
			second := launch(t, nil, "serve", "--http", "127.0.0.1:0", "--grpc", "off", "--admin", "127.0.0.1:0", "--limit", "3/1h", "--state", other)
			if code := second.status(); code != exitFailure {
				t.Errorf("%s: got exit status %d, want %d", other, code, exitFailure)
			}
			if want := "process " + strconv.Itoa(s.command.Process.Pid); !second.printed(want) || !second.printed("--state") {
				t.Errorf("%s: got\n%s\nwant --state and %q", other, second.text(), want)
			}
		}
		s.allow("ann") // the first process still works
		end(s)
	}
	s := startServe(t, "--limit", "3/1h", "--state", path)
	s.mustEnd(syscall.SIGTERM)
}

// A folder that cannot be used is an error at the start, and a damaged one is left unchanged.
func TestInvalidState(t *testing.T) {
	whole := filepath.Join(t.TempDir(), "state")
	s := startServe(t, "--state", whole)
	s.allow("me")
	s.mustEnd(syscall.SIGTERM)
	logs, err := filepath.Glob(filepath.Join(whole, "*.log"))
	if err != nil || len(logs) != 1 {
		t.Fatalf("got the files %v, %v", logs, err)
	}
	text, err := os.ReadFile(logs[0])
	if err != nil {
		t.Fatal(err)
	}
	flipped := []byte(string(text))
	flipped[4096+9] ^= 1
	for name, content := range map[string][]byte{"cut": text[:100], "flipped": flipped, "other": []byte("hello\n")} {
		path := filepath.Join(t.TempDir(), name)
		if err := os.Mkdir(path, 0o700); err != nil {
			t.Fatal(err)
		}
		file := filepath.Join(path, filepath.Base(logs[0]))
		if err := os.WriteFile(file, content, 0o600); err != nil {
			t.Fatal(err)
		}
		r := callBriefly(t, "serve", "--http", "127.0.0.1:0", "--grpc", "off", "--resp", "off", "--admin", "off", "--state", path)
		if r.status != exitFailure || !strings.Contains(r.err, "--state: ") || !strings.Contains(r.err, path) || !strings.Contains(r.err, "move everything in") {
			t.Errorf("%s: got status %d and\n%swant an error about --state with the fix", name, r.status, r.err)
		}
		if now, err := os.ReadFile(file); err != nil || string(now) != string(content) {
			t.Errorf("%s was changed", name)
		}
	}
	if r := callBriefly(t, "serve", "--http", "127.0.0.1:0", "--grpc", "off", "--resp", "off", "--admin", "off", "--state", "/proc/state"); r.status != exitFailure || !strings.Contains(r.err, "--state: ") || !strings.Contains(r.err, "/proc") {
		t.Errorf("got status %d and\n%swant an error about --state", r.status, r.err)
	}
}

// beginRequest starts a request and does not finish it. When it returns, the service has read the header.
func (s *runningService) beginRequest() net.Conn {
	s.t.Helper()
	conn, err := net.Dial("tcp", s.addresses["http"])
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(func() { conn.Close() })
	_ = conn.SetDeadline(time.Now().Add(time.Minute))
	_, err = io.WriteString(conn, "POST /v1/allow HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: 12\r\nExpect: 100-continue\r\n\r\n")
	if err != nil {
		s.t.Fatal(err)
	}
	interim := make([]byte, len("HTTP/1.1 100 Continue\r\n\r\n"))
	if _, err := io.ReadFull(conn, interim); err != nil || !strings.HasPrefix(string(interim), "HTTP/1.1 100") {
		s.t.Fatalf("got %q, %v, want 100 Continue", interim, err)
	}
	return conn
}

// A request in progress at shutdown gets its response, with either signal.
func TestShutdownFinishesRequests(t *testing.T) {
	for _, signal := range []os.Signal{os.Interrupt, syscall.SIGTERM} {
		t.Run(signal.String(), func(t *testing.T) {
			s := startServe(t, "--drain", "1m")
			conn := s.beginRequest()
			s.signal(signal)
			s.await("draining")
			if _, err := io.WriteString(conn, `{"key":"me"}`); err != nil {
				t.Fatal(err)
			}
			got, err := http.ReadResponse(bufio.NewReader(conn), nil)
			if err != nil || got.StatusCode != http.StatusOK {
				t.Errorf("got %v, %v, want 200", got, err)
			}
			if status := s.status(); status != exitOK {
				t.Errorf("got status %d, want %d:\n%s", status, exitOK, s.text())
			}
		})
	}
}

// A second signal ends the drain without waiting for requests that do not finish.
func TestSecondSignalEndsDrain(t *testing.T) {
	s := startServe(t, "--drain", "1h")
	s.beginRequest()
	s.signal(syscall.SIGTERM)
	s.await("draining")
	s.mustEnd(syscall.SIGTERM)
	if !s.printed("aborted") {
		t.Errorf("the message about the request that was cut off is missing:\n%s", s.text())
	}
}

// SIGHUP reloads the file. An invalid file changes nothing, and the position of the error is logged.
func TestHangupReloads(t *testing.T) {
	text := func(limit string) []byte { return []byte("policies:\n  default:\n    limits: [" + limit + "]\n") }
	path := write(t, "policies.yaml", text("1/1h sliding-log"))
	s := startServe(t, "--config", path)
	s.useAll("me", 1)
	if err := os.WriteFile(path, text("wrong"), 0o600); err != nil {
		t.Fatal(err)
	}
	s.signal(syscall.SIGHUP)
	s.await(path+":3:14: ", "stays in force")
	s.refused("me")
	if err := os.WriteFile(path, text("3/1h sliding-log"), 0o600); err != nil {
		t.Fatal(err)
	}
	s.signal(syscall.SIGHUP)
	s.await("policies reloaded")
	s.useAll("me", 2) // the first request still counts
	s.mustEnd(syscall.SIGTERM)

	s = startServe(t) // without a file, SIGHUP has no effect
	s.signal(syscall.SIGHUP)
	if got := s.allow("me"); got != http.StatusOK {
		t.Errorf("after SIGHUP: got %d, want 200", got)
	}
	s.mustEnd(syscall.SIGTERM)
}

// Without free file descriptors the service keeps running and waits until some are free.
func TestSurvivesFileDescriptorLimit(t *testing.T) {
	const files = 60
	shell := exec.Command("sh", "-c", `ulimit -n 60 && exec "$0" "$@"`, program, "serve",
		"--http", "127.0.0.1:0", "--grpc", "127.0.0.1:0", "--resp", "127.0.0.1:0", "--admin", "off")
	s := follow(t, shell)
	s.await("/v1/allow")
	for _, found := range regexp.MustCompile(`(?m)^  (http|grpc|resp) +(?:http://)?(127\.0\.0\.1:\d+)`).FindAllStringSubmatch(s.text(), -1) {
		s.addresses[found[1]] = found[2]
	}
	var conns []net.Conn
	for i := range 3 * files {
		conn, err := net.Dial("tcp", s.addresses[[]string{"http", "grpc", "resp"}[i%3]])
		if err != nil {
			t.Fatalf("connection %d: %v\n%s", i, err, s.text())
		}
		defer conn.Close()
		conns = append(conns, conn)
	}
	s.await("too many open files")
	for _, conn := range conns {
		conn.Close()
	}
	if got := s.allow("me"); got != http.StatusOK {
		t.Errorf("after the connections were closed: got %d, want 200", got)
	}
	s.mustEnd(syscall.SIGTERM)
}
