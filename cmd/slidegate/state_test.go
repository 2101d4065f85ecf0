package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strconv"
	"syscall"
	"testing"

	"github.com/slidegate/slidegate/internal/testkit"
)

// state info shows a folder while a process uses it, after that was killed, and after it has ended.
func TestStateInfo(t *testing.T) {
	path := filepath.Join(t.TempDir(), "state")
	s := startServe(t, "--limit", "3/1h sliding-log", "--state", path)
	s.useAll("ann", 3)
	s.allow("bob")
	info := func() stateInfo {
		t.Helper()
		i := infoOfState(t, path)
		if i.Keys != 2 || len(i.Limits) != 1 || i.Limits[0].Keys != 2 || i.Limits[0].Shape != "sliding-log-3600000000" {
			t.Errorf("got %+v, want 2 keys of a limit", i)
		}
		return i
	}
	process := "process " + strconv.Itoa(s.command.Process.Pid)
	if i := info(); i.Process != process || i.End != endInUse || i.Requests < 4 || i.Until == nil {
		t.Errorf("in use: got %+v", i)
	}
	s.kill()
	if i := info(); i.Process != "" || i.End != endKilled {
		t.Errorf("killed: got %+v", i)
	}
	s = startServe(t, "--limit", "3/1h sliding-log", "--state", path)
	s.mustEnd(syscall.SIGTERM)
	if i := info(); i.Process != "" || i.End != endClosed || i.Unrecorded {
		t.Errorf("ended: got %+v", i)
	}
	for _, args := range [][]string{{path + "-none"}, {t.TempDir()}, {filepath.Join(path, "lock")}, {""}, {}} {
		if r := call(t, append([]string{"state", "info"}, args...)...); r.status != exitFailure || r.out != "" {
			t.Errorf("%q: got status %d, %s%s", args, r.status, r.out, r.err)
		}
	}
	if _, err := os.Stat(path + "-none"); err == nil {
		t.Error("it made a folder")
	}
}

// infoOfState returns what state info prints.
func infoOfState(t *testing.T, path string) (i stateInfo) {
	t.Helper()
	if err := json.Unmarshal([]byte(mustCall(t, "state", "info", path)), &i); err != nil {
		t.Fatal(err)
	}
	return i
}

// What a process leaves that is killed while it begins in a new folder is a folder for state info too, as for the next start.
func TestStateInfoOfNewFolder(t *testing.T) {
	path := t.TempDir()
	for _, name := range []string{"lock", "000000000001.log"} {
		testkit.Must(0, os.WriteFile(filepath.Join(path, name), nil, 0o600))(t)
		if i := infoOfState(t, path); i.Process != "" || i.End != endNew || i.Unrecorded {
			t.Errorf("with %s: got %+v, want a folder in which nothing was recorded yet", name, i)
		}
	}
	startServe(t, "--limit", "3/1h", "--state", path).mustEnd(syscall.SIGTERM)
}
