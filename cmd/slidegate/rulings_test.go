package main

import (
	"os"
	"strings"
	"testing"
	"time"
)

// An operator blocks, overrides and unblocks keys from the command line, and sees who did what.
func TestRulingCommands(t *testing.T) {
	t.Setenv("SLIDEGATE_TOKEN", "")
	s := startServe(t, "--limit", "1/1h sliding-log")
	admin := s.url("admin")
	for _, step := range []struct {
		args   []string
		status int
		want   []string // parts of the output
	}{
		{[]string{"rulings"}, exitOK, []string{"no rulings are in force"}},
		{[]string{"rulings", "--log"}, exitOK, []string{"no changes yet"}},
		{[]string{"block", "alice", "--for", "1h", "--why", "abuse", "--who", "eve"}, exitOK, []string{`"alice" under the policy default: blocked, until 20`, "(1h0m0s)"}},
		{[]string{"explain", "alice"}, exitOK, []string{"ruling     \"alice\": blocked, until 20", "by eve (not verified): abuse", "decision   refused, by its ruling"}},
		{[]string{"peek", "alice", "--server", s.url("http")}, exitRefused, []string{"refused by a ruling: retry in "}},
		{[]string{"override", `"alice"`, "50/1h", "9/1s", "--until", "23:59:59"}, exitOK, []string{`"alice" under the policy default: 50/1h, 9/1s, until 20`, "in place of: blocked", "by eve (not verified): abuse"}},
		{[]string{"peek", "alice", "--server", s.url("http")}, exitOK, []string{"of 9 left"}},
		{[]string{"unblock", "alice"}, exitFailure, []string{"not block but limits"}},
		{[]string{"override", "alice", "--end", "--why", "enough"}, exitOK, []string{"ended; it was 50/1h, 9/1s"}},
		{[]string{"override", "alice", "--end"}, exitFailure, []string{"there is no ruling about this key"}},
		{[]string{"block", "2001:db8::3"}, exitFailure, []string{"write 2001:db8::/64"}},
		{[]string{"block", "2001:db8::/64"}, exitOK, []string{`"2001:db8::/64" under the policy default: blocked, until it is ended`}},
		{[]string{"peek", "2001:db8::9", "--server", s.url("http")}, exitRefused, []string{"refused by a ruling, with no end"}},
		{[]string{"override", "bob", "--unlimited"}, exitOK, []string{`"bob" under the policy default: unlimited, until it is ended`}},
		{[]string{"peek", "bob", "--server", s.url("http")}, exitOK, []string{"allowed without limits: unlimited"}},
		{[]string{"rulings"}, exitOK, []string{`default  "2001:db8::/64"  blocked    -`, `default  "bob"            unlimited  -`}},
		{[]string{"unblock", "2001:db8::/64"}, exitOK, []string{`"2001:db8::/64" under the policy default: ended; it was blocked`}},
		{[]string{"rulings", "--log", "-n", "20"}, exitOK, []string{"eve", "abuse", "ended", "enough", "unlimited", "50/1h, 9/1s"}},
		{[]string{"rulings", "--format", "json"}, exitOK, []string{`"rulings":[{"policy":"default","key":"bob","kind":"unlimited"`}},
		{[]string{"block", "x", "--policy", "nosuch"}, exitFailure, []string{"policy: ", `"nosuch"`}},
		{[]string{"block", "x", "--for", "soon"}, exitFailure, []string{"--for: must be a positive duration"}},
		{[]string{"block", "x", "--until", "25:00"}, exitFailure, []string{"--until: must be a time of day"}},
		{[]string{"block", "x", "--until", "2020-01-01T00:00:00Z"}, exitFailure, []string{"until: is in the past"}},
		{[]string{"block", "x", "--until", "18:00", "--for", "1h"}, exitFailure, []string{"can't be used together"}},
		{[]string{"override", "x"}, exitFailure, []string{"give limits, such as 1000/1m"}},
		{[]string{"override", "x", "--end", "--for", "1h"}, exitFailure, []string{"--end ends the override now"}},
		{[]string{"override", "x", "1/fortnight"}, exitFailure, []string{`limits: invalid limit: window: "fortnight" is`, `(in "1/fortnight")`}},
		{[]string{"rulings", "--log", "-n", "0"}, exitFailure, []string{"-n: must be 1 or more"}},
		{[]string{"block", "x", "--server", s.url("http")}, exitFailure, []string{"is not the admin listener"}},
	} {
		args := step.args
		if !strings.Contains(strings.Join(args, " "), "--server") {
			args = append(args, "--server", admin)
		}
		r := call(t, args...)
		for _, want := range step.want {
			if r.status != step.status || !strings.Contains(r.out+r.err, want) {
				t.Errorf("%q: got status %d, %s%s; want status %d and %q", step.args, r.status, r.out, r.err, step.status, want)
			}
		}
	}
}

// During a penalty, the penalty is what refuses.
func TestExplainPenalty(t *testing.T) {
	t.Setenv("SLIDEGATE_TOKEN", "")
	s := startServe(t, "--config", write(t, "policies.yaml", []byte("policies: {web: {limits: [1/1s], penalty: 1h}}\n")))
	s.useAll("ann", 1)
	s.refused("ann")
	commandLines{{[]string{"explain", "ann"}, exitOK, "refused, by its penalty, which lasts another 59m"}}.play(t, "--server", s.url("admin"))
}

// A time of day means its next occurrence, in local time.
func TestEndOfRulings(t *testing.T) {
	zone := time.FixedZone("", 2*60*60)
	now := time.Date(2026, 3, 31, 17, 30, 0, 0, zone)
	for text, want := range map[string]string{
		"":                     "",
		"18:00":                "2026-03-31T18:00:00+02:00",
		"17:30":                "2026-04-01T17:30:00+02:00",
		"17:30:01":             "2026-03-31T17:30:01+02:00",
		"2026-05-01 08:00":     "2026-05-01T08:00:00+02:00",
		"2026-05-01":           "2026-05-01T00:00:00+02:00",
		"2026-05-01T08:00:00Z": "2026-05-01T08:00:00Z",
	} {
		if got, err := (&endFlags{Until: text}).time(now); err != nil || got != want {
			t.Errorf("%q: got %q, %v; want %q", text, got, err, want)
		}
	}
	for _, text := range []string{"24:00", "tomorrow", "8"} {
		if got, err := (&endFlags{Until: text}).time(now); err == nil {
			t.Errorf("%q: got %q, want an error", text, got)
		}
	}
}

// The answer to a ruling names those that outrank it, and sees what was counted under the ruling before.
func TestRulingsThatOutrank(t *testing.T) {
	t.Setenv("SLIDEGATE_TOKEN", "")
	policies := write(t, "policies.yaml", []byte("policies:\n  users: {key: ['{header:X-Api-Key}', '{header:X-User}'], limits: [9/1h]}\n  sent: {limits: [9/1h]}\n"+
		"default_policy: users\n"))
	s := startServe(t, "--config", policies)
	commandLines{
		{[]string{"override", "address:10.1.2.3", "--unlimited"}, exitOK, "unlimited"},
		{[]string{"block", "address:10.1.0.0/16"}, exitOK, `note:    "address:10.1.2.3" has its own ruling, which takes precedence: unlimited`},
		{[]string{"override", "10.1.0.0/16", "5/1m", "--policy", "sent"}, exitOK, "5/1m"},
		{[]string{"block", "10.0.0.0/8", "--policy", "sent"}, exitOK, `note:    "10.1.0.0/16" has its own ruling, which takes precedence: 5/1m`},
		{[]string{"override", "rob", "50/3h", "--policy", "sent"}, exitOK, "seen:    no: the limits of the policy count nothing"},
	}.play(t, "--server", s.url("admin"))
	commandLines{{[]string{"allow", "rob", "--policy", "sent"}, exitOK, "49 of 50 left"}}.play(t, "--server", s.url("http"))
	commandLines{
		{[]string{"override", "rob", "60/3h", "--policy", "sent"}, exitOK, `seen:    "rob"`},
		{[]string{"block", "rob", "--policy", "sent"}, exitOK, `seen:    "rob"`},
	}.play(t, "--server", s.url("admin"))
}

// A reload says which rulings the policies cannot apply any more. They are not counted as in force, and can be ended as they are listed.
func TestRulingsAfterReload(t *testing.T) {
	t.Setenv("SLIDEGATE_TOKEN", "")
	text := "default_policy: web\npolicies:\n  web: {key: address, limits: [9/1h]}\n  other: {key: 'header:X-User', limits: [9/1h]}\n"
	policies := write(t, "policies.yaml", []byte(text))
	s := startServe(t, "--config", policies)
	commandLines{
		{[]string{"block", "2001:db8::7"}, exitFailure, "write 2001:db8::/64"},
		{[]string{"block", "2001:db8::/64"}, exitOK, `"2001:db8::/64"`},
		{[]string{"block", "192.0.2.7"}, exitOK, `"192.0.2.7"`},
		{[]string{"reload"}, exitOK, "reloaded"},
	}.play(t, "--server", s.url("admin"))
	s.awaitPage("admin", "/metrics", "slidegate_rulings 2")
	if err := os.WriteFile(policies, []byte(text+"address_groups: {ipv6: 56}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	commandLines{
		{[]string{"reload"}, exitRefused, "attention: rulings about the policy web that it cannot apply: 1; "},
		{[]string{"reload"}, exitRefused, "cannot apply: 1; "},
		{[]string{"rulings"}, exitOK, "cannot be applied"},
	}.play(t, "--server", s.url("admin"))
	s.awaitPage("admin", "/metrics", "slidegate_rulings 1")
	commandLines{
		{[]string{"unblock", "2001:db8::/64"}, exitOK, "ended; it was blocked"},
		{[]string{"reload"}, exitOK, "reloaded"},
	}.play(t, "--server", s.url("admin"))
}

// A reset has a reason in the log, and says if the key had used nothing.
func TestReset(t *testing.T) {
	t.Setenv("SLIDEGATE_TOKEN", "")
	s := startServe(t, "--limit", "9/1h")
	s.allow("alice")
	commandLines{
		{[]string{"reset", "alice", "--why", "case 4711", "--who", "eve"}, exitOK, "\"alice\" under the policy default: reset\n"},
		{[]string{"rulings", "--log"}, exitOK, "eve (not verified)  default  \"alice\"  usage reset         case 4711"},
		{[]string{"reset", "alcie"}, exitOK, "\"alcie\" under the policy default: reset; it had used nothing: check the spelling\n"},
		{[]string{"reset", "x", "--policy", "nosuch"}, exitFailure, "policy: "},
	}.play(t, "--server", s.url("admin"))
}
