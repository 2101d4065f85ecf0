package service_test

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/slidegate/slidegate/cmd/slidegate/internal/service"
	"github.com/slidegate/slidegate/cmd/slidegate/internal/testkit"
	"github.com/slidegate/slidegate/config"
)

// TestStateIsKept: the counts in memory survive a restart, and files left behind by a killed process are removed.
func TestStateIsKept(t *testing.T) {
	folder := filepath.Join(t.TempDir(), "with [odd] * name")
	if err := os.Mkdir(folder, 0o700); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(folder, "state")
	left, others := path+".123.new", filepath.Join(folder, "other.123.new")
	write(t, left, "half")
	write(t, others, "not ours")
	for i, want := range []int{200, 200, 429, 429} {
		s := start(t, plain, func(o *service.Options) { o.State = path })
		if got := s.allow(t, "", "me"); got != want {
			t.Errorf("start %d: got %d, want %d", i, got, want)
		}
		s.Stop(t)
	}
	if _, err := os.Stat(left); !os.IsNotExist(err) {
		t.Errorf("the leftover file was not removed: %v", err)
	}
	if _, err := os.Stat(others); err != nil {
		t.Errorf("a file that is not ours was removed: %v", err)
	}
	if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("others can read keys: %v, %v", info, err)
	}
}

// TestStateIsWrittenAgainAndAgain: a crash loses at most one interval.
func TestStateIsWrittenAgainAndAgain(t *testing.T) {
	path := filepath.Join(t.TempDir(), "state")
	s := start(t, plain, func(o *service.Options) { o.State, o.StateEvery = path, 5*time.Millisecond })
	s.allow(t, "", "me")
	s.allow(t, "", "me")
	crashed := filepath.Join(t.TempDir(), "state")
	before, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	saves := 0
	testkit.Eventually(t, "two saves, so that the second began after the last request", func() bool {
		now, err := os.Stat(path)
		if err == nil && !os.SameFile(now, before) {
			saves, before = saves+1, now
		}
		return saves == 2
	})
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	write(t, crashed, string(text))
	again := start(t, plain, func(o *service.Options) { o.State = crashed })
	if got := again.allow(t, "", "me"); got != http.StatusTooManyRequests {
		t.Errorf("the third of 2: got %d, want 429", got)
	}
}

// TestStateOfLittleMemory: the memory bound in the store's URL applies with and without a state file.
func TestStateOfLittleMemory(t *testing.T) {
	path := filepath.Join(t.TempDir(), "state")
	text := "store: \"memory:?max_bytes=256KiB\"\npolicies: {default: {limits: [1/1h]}}\n"
	for range 2 {
		s := start(t, text, func(o *service.Options) { o.State = path })
		for batch := range 80 {
			var requests []string
			for i := range 500 {
				requests = append(requests, fmt.Sprintf(`{"key":"key %d"}`, 500*batch+i))
			}
			if got := s.send(t, "http", "POST", "/v1/allow", `{"requests":[`+strings.Join(requests, ",")+"]}"); got.status != http.StatusOK {
				t.Fatalf("batch %d: got %+v, want 200", batch, got)
			}
		}
		s.Stop(t)
	}
	info, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	if info.Size() > 256<<10 { // 40,000 keys of 16 bytes and more have twice that
		t.Errorf("got a state file of %d bytes for a store of up to 256 KiB", info.Size())
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

// TestStateOfAnotherStore: only a memory store is kept in a file.
func TestStateOfAnotherStore(t *testing.T) {
	file, err := config.Parse("f", []byte("store: redis://127.0.0.1:1\npolicies: {default: {limits: [1/1h]}}\n"))
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "state")
	if _, err := service.New(t.Context(), service.Options{File: file, HTTP: "127.0.0.1:0", State: path}); err == nil {
		t.Error("got no error for a state file with Redis")
	}
	if _, err := os.Stat(path); !os.IsNotExist(err) {
		t.Errorf("the file was written: %v", err)
	}
}

// TestStateOfANewerVersion: it is rejected, not overwritten.
func TestStateOfANewerVersion(t *testing.T) {
	path := filepath.Join(t.TempDir(), "state")
	const newer = "slidegate memory 2\nand more"
	write(t, path, newer)
	file, err := config.Parse("f", []byte(plain))
	if err != nil {
		t.Fatal(err)
	}
	_, err = service.New(t.Context(), service.Options{File: file, HTTP: "127.0.0.1:0", State: path})
	if err == nil || !strings.Contains(err.Error(), path) || !strings.Contains(err.Error(), "upgrade this program") || strings.Contains(err.Error(), "move it away") {
		t.Errorf("got %v, want an error that says to upgrade", err)
	}
	if text, err := os.ReadFile(path); err != nil || string(text) != newer {
		t.Errorf("the file changed to %q, %v", text, err)
	}
}

// TestSlotsAreLogged: a policy that /v1/check cannot decide is logged at the start, and when a reload adds it.
func TestSlotsAreLogged(t *testing.T) {
	s := start(t, "policies: {default: {limits: [1/1h]}, held: {limits: [1 in-flight ttl=30s]}, tried: {limits: [1/1h], candidate: [1 in-flight ttl=30s]}}\n", nil)
	if log := s.Log.String(); strings.Count(log, "in-flight") != 2 || !strings.Contains(log, "policy=held") || !strings.Contains(log, "policy=tried") {
		t.Errorf("logged %s, want the policy held and the candidate of tried", log)
	}
	if got := s.send(t, "http", "POST", "/v1/acquire", `{"policy":"held","key":"me"}`); got.status != http.StatusOK {
		t.Errorf("acquire: got %d %s, want 200", got.status, got.body)
	}
}
