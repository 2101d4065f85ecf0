package main

import (
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
	look := func(end string, unrecorded bool) {
		t.Helper()
		if i := infoOfState(t, path); i.End != end || i.Unrecorded != unrecorded || i.Until == nil {
			t.Errorf("got %+v, want the end %q, unrecorded %v, and until when", i, end, unrecorded)
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
	look(endClosed, false)
	testkit.Must(0, os.WriteFile(filepath.Join(disk, "filler"), make([]byte, 10<<20), 0o600))(t)
	s := start(false)
	look(endInUse, true)
	s.signal(syscall.SIGTERM)
	if status := s.status(); status != exitFailure || !s.printed("closing: ") {
		t.Errorf("got status %d, want %d and why:\n%s", status, exitFailure, s.text())
	}
	look(endClosed, true)
	s = start(true)
	s.kill()
	look(endKilled, true)
	testkit.Must(0, os.Remove(filepath.Join(disk, "filler")))(t)
	start(true).mustEnd(syscall.SIGTERM)
	look(endClosed, false)
}

// A folder on a disk that was full from the beginning says so while the service runs, after it was killed, and after it has ended. The next
// start finds no damage.
func TestFullDiskFromTheBeginning(t *testing.T) {
	path := filepath.Join(testkit.SmallDisk(t, "4m"), "state")
	start := func() *runningService { return startServe(t, "--limit", "9/1h", "--state", path) }
	look := func(end string) {
		t.Helper()
		if i := infoOfState(t, path); i.End != end || !i.Unrecorded || i.Until != nil {
			t.Errorf("got %+v, want the end %q, and that nothing was recorded", i, end)
		}
	}
	s := start()
	s.allow("ann")
	look(endInUse)
	s.kill()
	look(endNew)
	s = start()
	s.signal(syscall.SIGTERM)
	if status := s.status(); status != exitFailure {
		t.Errorf("got status %d, want %d", status, exitFailure)
	}
	look(endClosed)
	if s = start(); !s.printed("the last process could not record what it decided") {
		t.Errorf("the log does not say what is missing:\n%s", s.text())
	}
}
