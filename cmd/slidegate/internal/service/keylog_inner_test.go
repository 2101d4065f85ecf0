package service

import (
	"bytes"
	"fmt"
	"log/slog"
	"regexp"
	"slices"
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
		r := newKeyLog(LogRefusalsHashed, slog.New(slog.NewTextHandler(&log, nil)), noLimits)
		for range 100 {
			r.refused(gate.Refusal{Policy: "p", Key: "ann"})
		}
		if lines, all := refusalsOf(log.String()); lines != 1 || all != 1 {
			t.Errorf("one key at a time: got %d lines of %d refusals, want 1 of 1", lines, all)
		}
		for i := range 50 {
			r.refused(gate.Refusal{Policy: "p", Key: fmt.Sprint("key ", i)})
		}
		if lines, _ := refusalsOf(log.String()); lines != sampleLines {
			t.Errorf("50 keys at a time: got %d lines, want %d", lines, sampleLines)
		}
		testkit.Pass(sampleEvery - time.Nanosecond)
		r.refused(gate.Refusal{Policy: "p", Key: "ann"})
		if lines, _ := refusalsOf(log.String()); lines != sampleLines {
			t.Errorf("before ten seconds have passed: got %d lines, want %d", lines, sampleLines)
		}
		testkit.Pass(time.Nanosecond)
		r.refused(gate.Refusal{Policy: "p", Key: "ann", Rule: "web/user"})
		r.refused(gate.Refusal{Policy: "q", Key: "ann"})
		r.close()
		if lines, all := refusalsOf(log.String()); lines != sampleLines+2 || all != 100+50+3 {
			t.Errorf("in total: got %d lines of %d refusals, want %d of 153:\n%s", lines, all, sampleLines+2, log.String())
		}
		testkit.Pass(time.Hour)
		r.refused(gate.Refusal{Policy: "p", Key: "late"})
		if len(r.refusals.recent) != 1 {
			t.Errorf("got %d remembered keys, want only the last", len(r.refusals.recent))
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
		r := newKeyLog(LogRefusalsHashed, slog.New(slog.NewTextHandler(&log, nil)), noLimits)
		r.refused(gate.Refusal{Policy: "p", Key: "192.0.2.1"})
		r.refused(gate.Refusal{Policy: "q", Key: "192.0.2.1"})
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
	newKeyLog(LogRefusalsKeys, slog.New(slog.NewTextHandler(&log, nil)), noLimits).refused(gate.Refusal{Policy: "envoy:web", Key: "user=ann", Rule: "user", Limit: slidegate.MustParseLimit("7/1h")})
	if !strings.Contains(log.String(), `key="user=ann" rule=user limits=7/1h left_out=0`) {
		t.Errorf("got %s", log.String())
	}
	log.Reset()
	newKeyLog(LogRefusalsKeys, slog.New(slog.NewTextHandler(&log, nil)), noLimits).refused(gate.Refusal{Policy: "p", Key: "k", By: policy.ByBlockList, Shadow: true})
	if !strings.Contains(log.String(), `policy=p key=k shadow=true left_out=0`) {
		t.Errorf("a block list in shadow mode: got %s, want no limits", log.String())
	}
	newKeyLog("", nil, nil).refused(gate.Refusal{Policy: "p", Key: "k"}) // logs nothing
}

// Of the keys that are near a limit, ten are logged in a second, the others are counted, and refusals take none of their lines. The key has
// the same hash as in the lines of refusals or, in mode keys, is logged.
func TestKeysNearALimit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		l := newKeyLog(LogRefusalsHashed, slog.New(slog.NewTextHandler(&log, nil)), noLimits)
		for i := range 50 {
			l.refused(gate.Refusal{Policy: "p", Key: fmt.Sprint("key ", i)})
			l.crossed(gate.Crossing{Policy: "p", Key: fmt.Sprint("key ", i), Limit: "5/1m", Percent: 80})
		}
		testkit.Pass(time.Second)
		for _, percent := range []int{80, 80, 100} { // 80 % of key 49 was not logged yet
			l.crossed(gate.Crossing{Policy: "p", Key: "key 49", Limit: "5/1m", Percent: percent})
		}
		l.crossed(gate.Crossing{Policy: "p", Key: "key 0", Limit: "5/1m", Percent: 80})
		l.close()
		var leftOut []string
		for _, found := range regexp.MustCompile(`(?m)msg="near a limit(: the rest)?".* left_out=(\d+)$`).FindAllStringSubmatch(log.String(), -1) {
			leftOut = append(leftOut, found[2])
		}
		if want := append(slices.Repeat([]string{"0"}, sampleLines), "40", "1", "1"); !slices.Equal(leftOut, want) {
			t.Errorf("got lines with left_out %q, want %q:\n%s", leftOut, want, log.String())
		}
		if line := fmt.Sprintf(`msg="near a limit" policy=p key_hash=%s limit=5/1m threshold=100%% left_out=1`, l.hash("key 49")); !strings.Contains(log.String(), line) {
			t.Errorf("got %s, want a line with %s", log.String(), line)
		}
		if hash := "key_hash=" + l.hash("key 0"); strings.Count(log.String(), hash) != 2 || strings.Contains(log.String(), "key 0") {
			t.Errorf("got %s, want a refusal and a threshold with %s", log.String(), hash)
		}
	})
	for mode, want := range map[string]string{"": "key_hash=", LogRefusalsKeys: "key=user=ann"} {
		var log bytes.Buffer
		newKeyLog(mode, slog.New(slog.NewJSONHandler(&log, nil)), noLimits).crossed(gate.Crossing{Policy: "p", Key: "user=ann", Limit: "5/1m", Percent: 80})
		if text := strings.NewReplacer(`"`, "", ":", "=").Replace(log.String()); !strings.Contains(text, want) || mode == "" && strings.Contains(text, "ann") {
			t.Errorf("mode %q: got %s, want %s", mode, log.String(), want)
		}
	}
}
