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

	"github.com/fsnotify/fsnotify"
)

// TestFirstMinute: what a newcomer sees. The program says where it listens and what to type; typed as it stands, that is
// answered until the quota is used, and then with a time to come back that is true.
func TestFirstMinute(t *testing.T) {
	need(t, "curl")
	s := startServe(t, "--limit", "3/1h sliding-log")
	for _, door := range []string{"http", "grpc", "resp", "admin"} {
		if s.door[door] == "" {
			t.Errorf("it does not say where %s is:\n%s", door, s.text())
		}
	}
	found := regexp.MustCompile(`(?m)^  (curl .*)$`).FindStringSubmatch(s.text())
	if found == nil {
		t.Fatalf("it does not say what to type:\n%s", s.text())
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
	// A second look, later: what is left then cannot be more than the header said, and with the time that went by between the
	// two looks, by the service's own clock, it is the same.
	var first, second struct {
		At    int64 `json:"at_us"`
		Retry int64 `json:"retry_after_us"`
	}
	_, body, _ := strings.Cut(last, "\r\n\r\n")
	if err := json.Unmarshal([]byte(body), &first); err != nil {
		t.Fatalf("not a decision: %v: %s", err, body)
	}
	_, text := s.post("/v1/peek", `{"key":"me"}`)
	if err := json.Unmarshal([]byte(text), &second); err != nil {
		t.Fatalf("not a decision: %v: %s", err, text)
	}
	if want := (first.Retry + 999_999) / 1_000_000; seconds != want || seconds > 3600 {
		t.Errorf("Retry-After: %d, but it is %d microseconds", seconds, first.Retry)
	}
	if first.At+first.Retry != second.At+second.Retry || second.At <= first.At {
		t.Errorf("at %d it is free in %d, at %d in %d: not the same moment", first.At, first.Retry, second.At, second.Retry)
	}
	if s.said("domains") {
		t.Errorf("noise:\n%s", s.text())
	}
	s.mustEnd(os.Interrupt)
}

// TestStateOutlivesTheProcess: an orderly end loses nothing, a crash what was not saved yet.
func TestStateOutlivesTheProcess(t *testing.T) {
	path := filepath.Join(t.TempDir(), "state")
	begin := func(every string) *serving {
		t.Helper()
		return startServe(t, "--limit", "3/1h sliding-log", "--state", path, "--state-every", every)
	}
	s := begin("1h")
	s.use("ann", 3)
	s.mustEnd(syscall.SIGTERM)

	s = begin("20ms")
	s.refused("ann")
	s.use("bob", 3)
	awaitSaves(t, path, 2) // all of the second is later
	s.kill()

	s = begin("1h")
	s.refused("ann")
	s.refused("bob")
	s.use("cid", 3)
	s.kill() // before it was saved: that is lost, and nothing else

	s = begin("1h")
	s.refused("ann")
	s.refused("bob")
	s.use("cid", 3)
	s.begun() // which does not finish, so that the second SIGTERM is needed, and finds somebody
	s.signal(syscall.SIGTERM)
	s.await("draining")
	s.mustEnd(syscall.SIGTERM)

	s = begin("1h")
	s.refused("cid")
	s.mustEnd(syscall.SIGTERM)
	if left, err := os.ReadDir(filepath.Dir(path)); err != nil || len(left) != 1 {
		t.Errorf("there is more than the state: %v, %v", left, err)
	}
}

// TestStateOfOneProcess: a second process with the same file ends at once and says who has it, however the path is written; when
// the first one is gone, however it went, the next one starts.
func TestStateOfOneProcess(t *testing.T) {
	folder := t.TempDir()
	path := filepath.Join(folder, "state")
	link := filepath.Join(t.TempDir(), "link")
	if err := os.Symlink(folder, link); err != nil {
		t.Fatal(err)
	}
	for _, end := range []func(*serving){(*serving).kill, func(s *serving) { s.mustEnd(syscall.SIGTERM) }} {
		s := startServe(t, "--limit", "3/1h", "--state", path)
		s.allow("ann")
		for _, other := range []string{path, folder + "/./state", filepath.Join(link, "state")} {
			second := launch(t, nil, "serve", "--http", "127.0.0.1:0", "--grpc", "off", "--admin", "127.0.0.1:0", "--limit", "3/1h", "--state", other)
			if code := second.status(); code != exitFailure {
				t.Errorf("%s: exit status %d, want %d", other, code, exitFailure)
			}
			if want := "process " + strconv.Itoa(s.command.Process.Pid); !second.said(want) || !second.said("--state") {
				t.Errorf("%s: it says\n%s\nwant --state and %q", other, second.text(), want)
			}
		}
		s.allow("ann") // it is not disturbed
		end(s)
	}
	s := startServe(t, "--limit", "3/1h", "--state", path)
	s.mustEnd(syscall.SIGTERM)
}

// awaitSaves waits until a file has been put into its place n times.
func awaitSaves(t *testing.T, path string, n int) {
	t.Helper()
	watcher, err := fsnotify.NewWatcher()
	if err != nil {
		t.Fatal(err)
	}
	defer watcher.Close()
	if err := watcher.Add(filepath.Dir(path)); err != nil {
		t.Fatal(err)
	}
	for late := time.After(longWait); n > 0; {
		select {
		case event := <-watcher.Events:
			if event.Name == path && event.Has(fsnotify.Create) { // under its own name: it was renamed
				n--
			}
		case err := <-watcher.Errors:
			t.Fatal(err)
		case <-late:
			t.Fatalf("%s: %d more saves never came", path, n)
		}
	}
}

// TestWrongState: a state that cannot be kept is an error at the start, and a damaged one stays as it is.
func TestWrongState(t *testing.T) {
	whole := filepath.Join(t.TempDir(), "state")
	s := startServe(t, "--state", whole)
	s.allow("me")
	s.mustEnd(syscall.SIGTERM)
	text, err := os.ReadFile(whole)
	if err != nil {
		t.Fatal(err)
	}
	flipped := []byte(string(text))
	flipped[len(flipped)/2] ^= 1
	for name, content := range map[string][]byte{"cut": text[:len(text)-5], "empty": {}, "flipped": flipped, "other": []byte("hello\n")} {
		path := write(t, name, content)
		r := callBriefly(t, "serve", "--http", "127.0.0.1:0", "--grpc", "off", "--resp", "off", "--admin", "off", "--state", path)
		if r.status != exitFailure || !strings.Contains(r.err, "--state: "+path) || !strings.Contains(r.err, "move it away") {
			t.Errorf("%s: status %d\n%s", name, r.status, r.err)
		}
		if now, err := os.ReadFile(path); err != nil || string(now) != string(content) {
			t.Errorf("%s was changed", name)
		}
	}
	folder := t.TempDir()
	if err := os.Chmod(folder, 0o500); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{filepath.Join(t.TempDir(), "missing", "state"), filepath.Join(folder, "state"), "/proc/state"} {
		if path == filepath.Join(folder, "state") && os.Getuid() == 0 {
			continue // root may write there
		}
		r := callBriefly(t, "serve", "--http", "127.0.0.1:0", "--grpc", "off", "--resp", "off", "--admin", "off", "--state", path)
		if r.status != exitFailure || !strings.Contains(r.err, "--state: ") || !strings.Contains(r.err, filepath.Dir(path)) {
			t.Errorf("%s: status %d\n%s", path, r.status, r.err)
		}
	}
}

// begun begins a request and does not end it. The service has read its header when this returns.
func (s *serving) begun() net.Conn {
	s.t.Helper()
	conn, err := net.Dial("tcp", s.door["http"])
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

// TestEndAnswers: a request that is under way when the end comes is answered, whoever asks for the end.
func TestEndAnswers(t *testing.T) {
	for _, signal := range []os.Signal{os.Interrupt, syscall.SIGTERM} {
		t.Run(signal.String(), func(t *testing.T) {
			s := startServe(t, "--drain", "1m")
			conn := s.begun()
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
				t.Errorf("status %d:\n%s", status, s.text())
			}
		})
	}
}

// TestSecondSignal: who asks twice does not wait for those who do not finish.
func TestSecondSignal(t *testing.T) {
	s := startServe(t, "--drain", "1h")
	s.begun()
	s.signal(syscall.SIGTERM)
	s.await("draining")
	s.mustEnd(syscall.SIGTERM)
	if !s.said("aborted") {
		t.Errorf("aborted requests were not logged:\n%s", s.text())
	}
}

// TestHangup: SIGHUP reads the file again; a wrong one changes nothing, and the log says where it is wrong.
func TestHangup(t *testing.T) {
	text := func(limit string) []byte { return []byte("policies:\n  default:\n    limits: [" + limit + "]\n") }
	path := write(t, "policies.yaml", text("1/1h sliding-log"))
	s := startServe(t, "--config", path)
	s.use("me", 1)
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
	s.use("me", 2) // the first is remembered
	s.mustEnd(syscall.SIGTERM)

	s = startServe(t) // without a file, SIGHUP does no harm
	s.signal(syscall.SIGHUP)
	if got := s.allow("me"); got != http.StatusOK {
		t.Errorf("after SIGHUP: %d", got)
	}
	s.mustEnd(syscall.SIGTERM)
}

// TestFewFiles: with no file descriptors left the service waits until there are some, and does not end.
func TestFewFiles(t *testing.T) {
	const files = 60
	shell := exec.Command("sh", "-c", `ulimit -n 60 && exec "$0" "$@"`, program, "serve",
		"--http", "127.0.0.1:0", "--grpc", "127.0.0.1:0", "--resp", "127.0.0.1:0", "--admin", "off")
	s := follow(t, shell)
	s.await("/v1/allow")
	for _, found := range regexp.MustCompile(`(?m)^  (http|grpc|resp) +(?:http://)?(127\.0\.0\.1:\d+)`).FindAllStringSubmatch(s.text(), -1) {
		s.door[found[1]] = found[2]
	}
	var conns []net.Conn
	for i := range 3 * files {
		conn, err := net.Dial("tcp", s.door[[]string{"http", "grpc", "resp"}[i%3]])
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
		t.Errorf("once they have left: %d", got)
	}
	s.mustEnd(syscall.SIGTERM)
}
