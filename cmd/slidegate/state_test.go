package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strconv"
	"strings"
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
	info := func(want ...string) stateInfo {
		t.Helper()
		r := call(t, "state", "info", path)
		for _, part := range want {
			if r.status != exitOK || !strings.Contains(r.out, part) {
				t.Errorf("got status %d, %s%swant %q", r.status, r.out, r.err, part)
			}
		}
		var i stateInfo
		if r = call(t, "state", "info", path, "--format", "json"); r.status != exitOK {
			t.Fatalf("got status %d, %s", r.status, r.err)
		}
		if err := json.Unmarshal([]byte(r.out), &i); err != nil {
			t.Fatal(err)
		}
		if i.Keys != 2 || len(i.Limits) != 1 || i.Limits[0].Keys != 2 {
			t.Errorf("got %s, want 2 keys of a limit", r.out)
		}
		return i
	}
	process := "process " + strconv.Itoa(s.command.Process.Pid)
	if i := info("used by      "+process, "end          in use", "sliding-log-3600000000  2"); i.Process != process || i.End != endInUse || i.Requests < 4 || i.Until == nil {
		t.Errorf("in use: got %+v", i)
	}
	s.kill()
	if i := info("no process", "the process was killed"); i.End != endKilled {
		t.Errorf("killed: got %+v", i)
	}
	s = startServe(t, "--limit", "3/1h sliding-log", "--state", path)
	s.mustEnd(syscall.SIGTERM)
	if i := info("no process", "closed in an orderly way"); i.End != endClosed {
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

// What a process leaves that is killed while it begins in a new folder is a folder for state info too, as for the next start.
func TestStateInfoOfNewFolder(t *testing.T) {
	path := t.TempDir()
	for _, name := range []string{"lock", "000000000001.log"} {
		testkit.Must(0, os.WriteFile(filepath.Join(path, name), nil, 0o600))(t)
		r := call(t, "state", "info", path)
		if r.status != exitOK || !strings.Contains(r.out, "end          nothing was recorded yet\n") || !strings.Contains(r.out, "no process") {
			t.Errorf("with %s: got status %d, %s%s", name, r.status, r.out, r.err)
		}
		if r = call(t, "state", "info", path, "--format", "json"); !strings.Contains(r.out, `"end":"new","unrecorded":false`) {
			t.Errorf("with %s: got %s", name, r.out)
		}
	}
	startServe(t, "--limit", "3/1h", "--state", path).mustEnd(syscall.SIGTERM)
}
