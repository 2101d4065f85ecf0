package main

import (
	"regexp"
	"strconv"
	"testing"
)

// Every key can be reset as explain prints it, with its quotes, or as a shell passes it on.
func TestResetAcceptsKeysAsPrinted(t *testing.T) {
	t.Setenv("SLIDEGATE_TOKEN", "")
	s := startServe(t, "--limit", "1/1h sliding-log")
	for _, sent := range []string{"2001:db8::/64", "203.0.113.7", "alice", "a b", "quo\"te\\", "tab\t"} {
		for range 2 {
			s.allow(sent)
		}
		printed := regexp.MustCompile(`(?m)^key +(".*")$`).FindStringSubmatch(mustCall(t, "explain", strconv.Quote(sent), "--server", s.url("admin")))
		if printed == nil {
			t.Fatalf("explain %s prints no key", sent)
		}
		key := printed[1]
		if r := call(t, "peek", key, "--server", s.url("http")); r.status != exitRefused {
			t.Errorf("peek %s: got status %d, %s%s, want a refusal", key, r.status, r.out, r.err)
		}
		if r := call(t, "reset", key, "--server", s.url("admin")); r.status != exitOK {
			t.Errorf("reset %s: got status %d, %s, want success", key, r.status, r.err)
		}
		if r := call(t, "peek", key, "--server", s.url("http")); r.status != exitOK {
			t.Errorf("peek %s after the reset: got status %d, %s, want admitted", key, r.status, r.out)
		}
	}
	for _, key := range []string{"2001:db8::/64", "203.0.113.7", "alice", `quo"te\`} {
		s.allow(key)
		if got := s.allow(key); got != 429 {
			t.Errorf("second request of %s: got %d, want 429", key, got)
		}
		call(t, "reset", key, "--server", s.url("admin"))
		if r := call(t, "peek", key, "--server", s.url("http")); r.status != exitOK {
			t.Errorf("peek %s after the reset: got status %d, %s%s, want admitted", key, r.status, r.out, r.err)
		}
	}
}
