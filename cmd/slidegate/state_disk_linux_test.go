package main

import (
	"path/filepath"
	"strings"
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
