package main

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/slidegate/slidegate/cmd/slidegate/internal/replay"
)

// With the default algorithm, 60/1m admits at most 60 in any minute, whatever the shape of the traffic.
func TestReplayDefaultNeverExceedsItsQuota(t *testing.T) {
	for _, shape := range []string{"mixed", "zipf"} {
		var found replay.Findings
		args := []string{"replay", "--generate", shape, "--requests", "30000", "--limit", "60/1m", "--format", "json"}
		if err := json.Unmarshal([]byte(mustCall(t, args...)), &found); err != nil {
			t.Fatal(err)
		}
		if highest := found.Outcome.Limits[0].Highest.Units; highest > 60 || found.Outcome.Refused == 0 {
			t.Errorf("%s: got at most %d in any minute and %d refused, want at most 60 and some refused", shape, highest, found.Outcome.Refused)
		}
	}
}

// Calendar windows can be swept and compared; limits that cannot be replayed are errors with the fix.
func TestReplayOfNewKindsOfLimits(t *testing.T) {
	made := []string{"replay", "--generate", "mixed", "--requests", "5000"}
	text := mustCall(t, append(made, "--limit", "200/day zone=Europe/Berlin", "--compare", "--sweep", "100,300")...)
	for _, want := range []string{"highest in any calendar day", "Other quotas per calendar day", "Not compared: other algorithms"} {
		if !strings.Contains(text, want) {
			t.Errorf("%q is missing in the report:\n%s", want, text)
		}
	}
	for _, args := range [][]string{{"--limit", "50 in-flight ttl=30s"}, {"--limit", "60/1m", "--sweep", "50,20000"}} {
		got := call(t, append(made, args...)...)
		if got.status == 0 || !strings.Contains(got.err, "leave it out") && !strings.Contains(got.err, "60/1m sliding-window") {
			t.Errorf("%v: got status %d, %s; want an error with the fix", args, got.status, got.err)
		}
	}
}
