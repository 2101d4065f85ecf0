package server_test

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/slidegate/slidegate/cmd/slidegate/internal/server"
	"github.com/slidegate/slidegate/cmd/slidegate/internal/testkit"
	"github.com/slidegate/slidegate/config"
)

// TestStateIsKept: what is in memory is there after a restart, and what a killed process left behind is not.
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
		s := start(t, plain, func(o *server.Options) { o.State = path })
		if got := s.allow(t, "", "me"); got != want {
			t.Errorf("start %d: %d, not %d", i, got, want)
		}
		s.Stop(t)
	}
	if _, err := os.Stat(left); !os.IsNotExist(err) {
		t.Errorf("what was left behind is still there: %v", err)
	}
	if _, err := os.Stat(others); err != nil {
		t.Errorf("what is not ours is gone: %v", err)
	}
	if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("others can read keys: %v, %v", info, err)
	}
}

// TestStateIsWrittenAgainAndAgain: a crash loses an interval and no more.
func TestStateIsWrittenAgainAndAgain(t *testing.T) {
	path := filepath.Join(t.TempDir(), "state")
	s := start(t, plain, func(o *server.Options) { o.State, o.StateEvery = path, 5*time.Millisecond })
	s.allow(t, "", "me")
	s.allow(t, "", "me")
	crashed := filepath.Join(t.TempDir(), "state")
	before, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	saves := 0
	testkit.Eventually(t, "it is saved twice, so that all of the second is after the last request", func() bool {
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
	again := start(t, plain, func(o *server.Options) { o.State = crashed })
	if got := again.allow(t, "", "me"); got != http.StatusTooManyRequests {
		t.Errorf("the third of 2: %d", got)
	}
}

// TestStateOfLittleMemory: how much memory the store takes is as its URL says, with a file and without.
func TestStateOfLittleMemory(t *testing.T) {
	path := filepath.Join(t.TempDir(), "state")
	text := "store: \"memory:?max_bytes=256KiB\"\npolicies: {default: {limits: [1/1h]}}\n"
	for range 2 {
		s := start(t, text, func(o *server.Options) { o.State = path })
		for batch := range 80 {
			var asks []string
			for i := range 500 {
				asks = append(asks, fmt.Sprintf(`{"key":"key %d"}`, 500*batch+i))
			}
			if got := s.ask(t, "http", "POST", "/v1/allow", `{"requests":[`+strings.Join(asks, ",")+"]}"); got.status != http.StatusOK {
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
		t.Errorf("what takes up to 256 KiB of memory has %d bytes", info.Size())
	}
}

// TestStateOfTooLittleMemory: a wrong bound is the URL's error, not the file's, which is left alone.
func TestStateOfTooLittleMemory(t *testing.T) {
	for url, want := range map[string]string{"memory:?max_bytes=5": "URL: max_bytes", "memory:?max_keys=64": "max_bytes=256MiB"} {
		file, err := config.Parse("f", []byte("store: \""+url+"\"\npolicies: {default: {limits: [1/1h]}}\n"))
		if err != nil {
			t.Fatal(err)
		}
		path := filepath.Join(t.TempDir(), "state")
		_, err = server.New(t.Context(), server.Options{File: file, HTTP: "127.0.0.1:0", State: path})
		if err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), path) {
			t.Errorf("%s: got %v, want an error that says %s and not where the state is", url, err, want)
		}
		if _, err := os.Stat(path); !os.IsNotExist(err) {
			t.Errorf("%s: it was written: %v", url, err)
		}
	}
}

// TestStateOfAnotherStore: only memory is kept in a file.
func TestStateOfAnotherStore(t *testing.T) {
	file, err := config.Parse("f", []byte("store: redis://127.0.0.1:1\npolicies: {default: {limits: [1/1h]}}\n"))
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "state")
	if _, err := server.New(t.Context(), server.Options{File: file, HTTP: "127.0.0.1:0", State: path}); err == nil {
		t.Error("a file for Redis")
	}
	if _, err := os.Stat(path); !os.IsNotExist(err) {
		t.Errorf("it was written: %v", err)
	}
}

// TestStateOfAnEarlierVersion: a file that was written before a limit without an algorithm could be a sliding log is read, and what
// does not go on with its counts is told.
func TestStateOfAnEarlierVersion(t *testing.T) {
	text, err := os.ReadFile(filepath.Join("gate", "testdata", "version1", "state"))
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "state")
	write(t, path, string(text))
	s := start(t, "policies:\n  default: {limits: [5/43920h, 600/1m, 7/1h fixed-window]}\n  named: {limits: [5/43920h sliding-window], overrides: [{key: a, limits: [9/43920h]}]}\n"+
		"  plans: {limits: [60/1h sliding-log, 600/1m], overrides: [{key: a, limits: [700/1h, 5/1m]}, {key: b, limits: [7/1s]}, {key: c, limits: [7/1s]}], candidate: [8/1s, 900/1h]}\n", func(o *server.Options) { o.State = path })
	log := s.Log.String()
	want := []string{"policy=default limit=5/43920h", "policy=plans limit=700/1h", "policy=plans limit=7/1s", "policy=plans limit=8/1s"}
	if strings.Count(log, "starts empty") != len(want) {
		t.Errorf("logged %s, want that %q start empty, and no other", log, want)
	}
	for _, limit := range want {
		if !strings.Contains(log, limit+"\n") {
			t.Errorf("logged %s, want that %s starts empty", log, limit)
		}
	}
	s.Stop(t)
	again := start(t, "policies: {default: {limits: [5/43920h]}}\n", func(o *server.Options) { o.State = path })
	if log := again.Log.String(); strings.Contains(log, "starts empty") {
		t.Errorf("a file of this version: logged %s", log)
	}
}

// TestStateOfANewerVersion: it is refused, not forgotten.
func TestStateOfANewerVersion(t *testing.T) {
	path := filepath.Join(t.TempDir(), "state")
	const newer = "slidegate memory 4\nand more"
	write(t, path, newer)
	file, err := config.Parse("f", []byte(plain))
	if err != nil {
		t.Fatal(err)
	}
	_, err = server.New(t.Context(), server.Options{File: file, HTTP: "127.0.0.1:0", State: path})
	if err == nil || !strings.Contains(err.Error(), path) || !strings.Contains(err.Error(), "upgrade this program") || strings.Contains(err.Error(), "move it away") {
		t.Errorf("got %v, want an error that says to upgrade", err)
	}
	if text, err := os.ReadFile(path); err != nil || string(text) != newer {
		t.Errorf("the file is now %q, %v", text, err)
	}
}

// TestSlotsAreTold: a policy that /v1/check cannot decide is named at the start, and when a reload brings it.
func TestSlotsAreTold(t *testing.T) {
	s := start(t, "policies: {default: {limits: [1/1h]}, held: {limits: [1 in-flight ttl=30s]}, tried: {limits: [1/1h], candidate: [1 in-flight ttl=30s]}}\n", nil)
	if log := s.Log.String(); strings.Count(log, "in-flight") != 2 || !strings.Contains(log, "policy=held") || !strings.Contains(log, "policy=tried") {
		t.Errorf("logged %s, want the policy held and the candidate of tried", log)
	}
	if got := s.ask(t, "http", "POST", "/v1/acquire", `{"policy":"held","key":"me"}`); got.status != http.StatusOK {
		t.Errorf("acquire: got %d %s, want 200", got.status, got.body)
	}
}
