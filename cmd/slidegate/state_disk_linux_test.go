package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/slidegate/slidegate/internal/testkit"
)

// On a full disk, the commands say that a crash would forget what they did.
func TestCommandsOnFullDisk(t *testing.T) {
	t.Setenv("SLIDEGATE_TOKEN", "")
	s := startServe(t, "--limit", "9/1h", "--state", filepath.Join(testkit.SmallDisk(t, "4m"), "state"))
	for _, args := range [][]string{{"allow", "ann"}, {"block", "bob"}, {"unblock", "bob"}, {"override", "bob", "50/1h"}, {"override", "bob", "--end"}} {
		server := s.url("admin")
		if args[0] == "allow" {
			server = s.url("http")
		}
		if r := call(t, append(args, "--server", server)...); r.status != exitOK || !strings.Contains(r.out, "a crash would forget this") {
			t.Errorf("%q: got status %d, %s%s", args, r.status, r.out, r.err)
		}
	}
}

// The end of a service on a full disk is named truly, with what is missing, and the next start says it too.
func TestEndOnFullDisk(t *testing.T) {
	disk := testkit.SmallDisk(t, "20m")
	path := filepath.Join(disk, "state")
	args := []string{"--limit", "9/1h", "--state", path}
	missing := "; what was decided last could not be recorded\n"
	look := func(end string, text string) {
		t.Helper()
		if r := call(t, "state", "info", path); r.status != exitOK || !strings.Contains(r.out, "end          "+text) {
			t.Errorf("got status %d, %s%swant the end %q", r.status, r.out, r.err, text)
		}
		want := fmt.Sprintf(`"end":%q,"unrecorded":%v,`, end, strings.HasSuffix(text, missing))
		if r := call(t, "state", "info", path, "--format", "json"); !strings.Contains(r.out, want) {
			t.Errorf("got %s, want %s", r.out, want)
		}
	}
	start := func(full bool) *runningService {
		t.Helper()
		s := startServe(t, args...)
		if s.allow("ann"); s.printed("the last process could not record what it decided") != full {
			t.Errorf("the log should say that something is missing: %v\n%s", full, s.text())
		}
		return s
	}
	start(false).mustEnd(syscall.SIGTERM)
	look(endClosed, "closed in an orderly way\n")
	testkit.Must(0, os.WriteFile(filepath.Join(disk, "filler"), make([]byte, 10<<20), 0o600))(t)
	s := start(false)
	look(endInUse, "in use"+missing)
	s.signal(syscall.SIGTERM)
	if status := s.status(); status != exitFailure || !s.printed("closing: ") {
		t.Errorf("got status %d, want %d and why:\n%s", status, exitFailure, s.text())
	}
	look(endClosed, "closed in an orderly way"+missing)
	s = start(true)
	s.kill()
	look(endKilled, "the process was killed; 0 unfinished records are skipped"+missing)
	testkit.Must(0, os.Remove(filepath.Join(disk, "filler")))(t)
	start(true).mustEnd(syscall.SIGTERM)
	look(endClosed, "closed in an orderly way\n")
}
