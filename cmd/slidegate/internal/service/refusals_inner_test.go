package service

import (
	"bytes"
	"fmt"
	"log/slog"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/slidegate/slidegate"
	"github.com/slidegate/slidegate/cmd/slidegate/internal/gate"
	"github.com/slidegate/slidegate/internal/testkit"
	"github.com/slidegate/slidegate/policy"
)

func noLimits(string, string) []slidegate.Limit { return []slidegate.Limit{slidegate.PerMinute(5)} }

// refusalsOf returns how many lines a log has, and how many refusals the lines and their numbers add up to.
func refusalsOf(log string) (lines, all int) {
	for _, found := range regexp.MustCompile(`(?m)msg=(refused|"refused: the rest").*left_out=(\d+)$`).FindAllStringSubmatch(log, -1) {
		n, _ := strconv.Atoi(found[2])
		all += n
		if found[1] == "refused" {
			lines, all = lines+1, all+1
		}
	}
	return lines, all
}

// There is at most one line per key in ten seconds, at most ten lines per second, and every refusal is in a line or in its number.
func TestRefusalsAreSampled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		r := newRefusalLog(LogRefusalsHashed, slog.New(slog.NewTextHandler(&log, nil)), noLimits)
		for range 100 {
			r.add(gate.Refusal{Policy: "p", Key: "ann"})
		}
		if lines, all := refusalsOf(log.String()); lines != 1 || all != 1 {
			t.Errorf("one key at a time: got %d lines of %d refusals, want 1 of 1", lines, all)
		}
		for i := range 50 {
			r.add(gate.Refusal{Policy: "p", Key: fmt.Sprint("key ", i)})
		}
		if lines, _ := refusalsOf(log.String()); lines != refusalLines {
			t.Errorf("50 keys at a time: got %d lines, want %d", lines, refusalLines)
		}
		testkit.Pass(refusalEvery - time.Nanosecond)
		r.add(gate.Refusal{Policy: "p", Key: "ann"})
		if lines, _ := refusalsOf(log.String()); lines != refusalLines {
			t.Errorf("before ten seconds have passed: got %d lines, want %d", lines, refusalLines)
		}
		testkit.Pass(time.Nanosecond)
		r.add(gate.Refusal{Policy: "p", Key: "ann", Rule: "web/user"})
		r.add(gate.Refusal{Policy: "q", Key: "ann"})
		r.close()
		if lines, all := refusalsOf(log.String()); lines != refusalLines+2 || all != 100+50+3 {
			t.Errorf("in total: got %d lines of %d refusals, want %d of 153:\n%s", lines, all, refusalLines+2, log.String())
		}
		testkit.Pass(time.Hour)
		r.add(gate.Refusal{Policy: "p", Key: "late"})
		if len(r.recent) != 1 {
			t.Errorf("got %d remembered keys, want only the last", len(r.recent))
		}
		if strings.Contains(log.String(), "ann") || strings.Contains(log.String(), "key 1") {
			t.Errorf("a key is in the log:\n%s", log.String())
		}
	})
}

// A key has the same hash in all lines of a process, and another in another process. In mode keys, the key itself is logged.
func TestRefusedKeys(t *testing.T) {
	hashes := map[string]bool{}
	for range 2 {
		var log bytes.Buffer
		r := newRefusalLog(LogRefusalsHashed, slog.New(slog.NewTextHandler(&log, nil)), noLimits)
		r.add(gate.Refusal{Policy: "p", Key: "192.0.2.1"})
		r.add(gate.Refusal{Policy: "q", Key: "192.0.2.1"})
		found := regexp.MustCompile(`key_hash=(\w{16})`).FindAllStringSubmatch(log.String(), -1)
		if len(found) != 2 || found[0][1] != found[1][1] || !strings.Contains(log.String(), "policy=p") || !strings.Contains(log.String(), `limits=5/1m`) {
			t.Fatalf("got %s", log.String())
		}
		hashes[found[0][1]] = true
	}
	if len(hashes) != 2 {
		t.Error("two processes have the same hash")
	}
	var log bytes.Buffer
	newRefusalLog(LogRefusalsKeys, slog.New(slog.NewTextHandler(&log, nil)), noLimits).add(gate.Refusal{Policy: "envoy:web", Key: "user=ann", Rule: "user", Limit: slidegate.MustParseLimit("7/1h")})
	if !strings.Contains(log.String(), `key="user=ann" rule=user limits=7/1h left_out=0`) {
		t.Errorf("got %s", log.String())
	}
	log.Reset()
	newRefusalLog(LogRefusalsKeys, slog.New(slog.NewTextHandler(&log, nil)), noLimits).add(gate.Refusal{Policy: "p", Key: "k", By: policy.ByBlockList, Shadow: true})
	if !strings.Contains(log.String(), `policy=p key=k shadow=true left_out=0`) {
		t.Errorf("a block list in shadow mode: got %s, want no limits", log.String())
	}
	newRefusalLog("", nil, nil).add(gate.Refusal{Policy: "p", Key: "k"}) // logs nothing
}
