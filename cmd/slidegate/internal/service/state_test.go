package service_test

import (
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/slidegate/slidegate/cmd/slidegate/internal/service"
	"github.com/slidegate/slidegate/cmd/slidegate/internal/testkit"
	"github.com/slidegate/slidegate/config"
)

// TestStateIsKept: the counts in memory survive a restart, in both degrees.
func TestStateIsKept(t *testing.T) {
	for _, degree := range []string{"", "process", "synced"} {
		path := filepath.Join(t.TempDir(), "with [odd] * name")
		for i, want := range []int{200, 200, 429, 429} {
			s := start(t, plain, func(o *service.Options) { o.State, o.StateDegree = path, degree })
			if got := s.allow(t, "", "me"); got != want {
				t.Errorf("%q, start %d: got %d, want %d", degree, i, got, want)
			}
			s.Stop(t)
		}
		if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o700 {
			t.Errorf("others can read what is kept: %v, %v", info, err)
		}
	}
}

// TestStateIsWrittenAtOnce: a crash forgets nothing that was answered, and no ruling.
func TestStateIsWrittenAtOnce(t *testing.T) {
	path := filepath.Join(t.TempDir(), "state")
	s := start(t, ruledFile, func(o *service.Options) { o.State = path })
	s.allow(t, "", "me")
	s.allow(t, "", "me")
	if got := s.send(t, "admin", "POST", "/v1/rulings", `{"key":"bad","kind":"block","who":"ann"}`); got.status != http.StatusOK {
		t.Fatalf("block: got %+v", got)
	}
	before := s.send(t, "http", "POST", "/v1/peek", `{"key":"me"}`)
	crashed := filepath.Join(t.TempDir(), "state")
	if err := os.CopyFS(crashed, os.DirFS(path)); err != nil {
		t.Fatal(err)
	}
	again := start(t, ruledFile, func(o *service.Options) { o.State = crashed })
	if got := again.allow(t, "", "bad"); got != http.StatusTooManyRequests {
		t.Errorf("blocked: got %d, want 429", got)
	}
	remaining := regexp.MustCompile(`"remaining":\d+`)
	if got := again.send(t, "http", "POST", "/v1/peek", `{"key":"me"}`); remaining.FindString(got.body) != remaining.FindString(before.body) {
		t.Errorf("got %s, want what there was before: %s", got.body, before.body)
	}
}

// TestStateOfTooLittleMemory: an invalid bound is reported as an error of the URL, not of the file, which is not touched.
func TestStateOfTooLittleMemory(t *testing.T) {
	for url, want := range map[string]string{"memory:?max_bytes=5": "store: max_bytes", "memory:?max_byte=64": "max_bytes"} {
		file, err := config.Parse("f", []byte("store: \""+url+"\"\npolicies: {default: {limits: [1/1h]}}\n"))
		if err != nil {
			t.Fatal(err)
		}
		path := filepath.Join(t.TempDir(), "state")
		_, err = service.New(t.Context(), service.Options{File: file, HTTP: "127.0.0.1:0", State: path})
		if err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), path) {
			t.Errorf("%s: got %v, want an error with %s and without the path of the state", url, err, want)
		}
		if _, err := os.Stat(path); !os.IsNotExist(err) {
			t.Errorf("%s: the file was written: %v", url, err)
		}
	}
}

// TestStateOfAnotherStore: only a memory store is kept in a folder.
func TestStateOfAnotherStore(t *testing.T) {
	file, err := config.Parse("f", []byte("store: redis://127.0.0.1:1\npolicies: {default: {limits: [1/1h]}}\n"))
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "state")
	if _, err := service.New(t.Context(), service.Options{File: file, HTTP: "127.0.0.1:0", State: path}); err == nil {
		t.Error("got no error for a folder with Redis")
	}
	if _, err := os.Stat(path); !os.IsNotExist(err) {
		t.Errorf("the file was written: %v", err)
	}
}

// TestStateIsAFile: a file in place of the folder is an error, and is not touched.
func TestStateIsAFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "state")
	write(t, path, "of somebody")
	file, err := config.Parse("f", []byte(plain))
	if err != nil {
		t.Fatal(err)
	}
	_, err = service.New(t.Context(), service.Options{File: file, HTTP: "127.0.0.1:0", State: path})
	if err == nil || !strings.Contains(err.Error(), path) || !strings.Contains(err.Error(), "give a folder") {
		t.Errorf("got %v, want an error that says to give a folder", err)
	}
	if text, err := os.ReadFile(path); err != nil || !strings.HasPrefix(string(text), "of somebody") {
		t.Errorf("the file changed to %q, %v", text, err)
	}
}

// TestStateFolderIsLost: when the folder is moved away, the service goes on in memory and says so, and does not disturb another one that
// begins in its place.
func TestStateFolderIsLost(t *testing.T) {
	path := filepath.Join(t.TempDir(), "state")
	option := func(o *service.Options) { o.State = path }
	s := start(t, plain, option)
	ready := func() string { return s.send(t, "http", "GET", "/readyz", "").body }
	if err := os.Rename(path, path+"-moved"); err != nil {
		t.Fatal(err)
	}
	other := start(t, plain, option)
	testkit.Eventually(t, "that it is noticed", func() bool { return strings.HasPrefix(ready(), "degraded: state: ") })
	if got := s.send(t, "http", "POST", "/v1/charge", `{"key":"me"}`); !strings.Contains(got.body, `"not_durable"`) {
		t.Errorf("a charge: got %+v, want the flag not_durable", got)
	}
	if got := other.send(t, "http", "POST", "/v1/charge", `{"key":"me"}`); got.status != http.StatusOK || strings.Contains(got.body, `"not_durable"`) {
		t.Errorf("a charge by the other: got %+v", got)
	}
	testkit.Eventually(t, "the log", func() bool { return s.Log.Has("put it back, or restart this process") })
	other.Stop(t)
	if err := os.RemoveAll(path); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(path+"-moved", path); err != nil {
		t.Fatal(err)
	}
	testkit.Eventually(t, "the end of it", func() bool { return ready() == "ready\n" })
}

// TestSlotsAreLogged: a policy that /v1/check cannot decide is logged at the start, and when a reload adds it.
func TestSlotsAreLogged(t *testing.T) {
	s := start(t, "policies: {default: {limits: [1/1h]}, held: {limits: [1 in-flight ttl=30s]}}\n", nil)
	if log := s.Log.String(); strings.Count(log, "in-flight") != 1 || !strings.Contains(log, "policy=held") {
		t.Errorf("logged %s, want the policy held", log)
	}
	if got := s.send(t, "http", "POST", "/v1/acquire", `{"policy":"held","key":"me"}`); got.status != http.StatusOK {
		t.Errorf("acquire: got %d %s, want 200", got.status, got.body)
	}
}
