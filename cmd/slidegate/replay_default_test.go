package main

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/slidegate/slidegate/cmd/slidegate/internal/replay"
	"github.com/slidegate/slidegate/internal/testkit/generate"
)

// By default, no minute has more admissions than the quota, whatever the shape of the traffic.
func TestReplayDefaultNeverExceedsItsQuota(t *testing.T) {
	for _, shape := range []string{"mixed", "zipf"} {
		log := write(t, shape+".jsonl", []byte(made(t, generate.Options{Shape: shape, Requests: 30_000})))
		for _, quota := range []int64{60, 120} {
			var found replay.Findings
			limit := fmt.Sprintf("%d/1m", quota)
			args := []string{"replay", log, "--limit", limit, "--format", "json"}
			if err := json.Unmarshal([]byte(mustCall(t, args...)), &found); err != nil {
				t.Fatal(err)
			}
			if highest := found.Outcome.Limits[0].Highest.Units; highest > quota || found.Outcome.Refused == 0 {
				t.Errorf("%s, %s: got at most %d in any minute and %d refused, want some refused", shape, limit, highest, found.Outcome.Refused)
			}
		}
	}
}

// Calendar windows can be swept and compared; limits that cannot be replayed are errors with the fix.
func TestReplayOfNewKindsOfLimits(t *testing.T) {
	replayed := []string{"replay", write(t, "made.jsonl", []byte(made(t, generate.Options{Requests: 5_000})))}
	text := mustCall(t, append(replayed, "--limit", "200/day zone=Europe/Berlin", "--compare", "--sweep", "100,300")...)
	for _, want := range []string{"highest in any calendar day", "Other quotas per calendar day", "Not compared: other algorithms"} {
		if !strings.Contains(text, want) {
			t.Errorf("%q is missing in the report:\n%s", want, text)
		}
	}
	for _, args := range [][]string{{"--limit", "50 in-flight ttl=30s"}, {"--limit", "60/1m sliding-log", "--sweep", "50,20000"}} {
		got := call(t, append(replayed, args...)...)
		if got.status == 0 || !strings.Contains(got.err, "leave it out") && !strings.Contains(got.err, "with overlap whole gives the same hard cap") {
			t.Errorf("%v: got status %d, %s; want an error with the fix", args, got.status, got.err)
		}
	}
}
