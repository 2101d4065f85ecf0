package porttest

import (
	"compress/gzip"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/slidegate/slidegate"
	"github.com/slidegate/slidegate/rule"
	"github.com/slidegate/slidegate/store"
)

type recording struct {
	System string
	Params struct {
		Algorithm       string
		Limit, WindowMs int64
	}
}

type recorded struct {
	T         int64 // milliseconds since the epoch
	Key       string
	Cost      int64
	Allowed   *bool
	Remaining *int64
	Count     *int64 // of the sorted set right after
}

// Traces checks that a store reproduces every recorded decision of the limiters that Slidegate replaces. The recordings
// are those of package rule, found relative to this package; the test of the same name there describes them.
func Traces(t *testing.T, open Open) {
	t.Helper()
	files, err := filepath.Glob(filepath.Join("..", "..", "rule", "testdata", "traces", "*", "*.json"))
	if err != nil || len(files) < 9 {
		t.Fatalf("got recordings %v, %v", files, err)
	}
	for _, file := range files {
		name := strings.TrimSuffix(file, ".json")
		t.Run(filepath.Base(filepath.Dir(file))+"/"+filepath.Base(name), func(t *testing.T) { replayTrace(t, open, name) })
	}
}

func (r *recording) limit(t *testing.T) slidegate.Limit {
	t.Helper()
	l := slidegate.Limit{
		Name: "trace", Algorithm: slidegate.SlidingWindow, Quota: r.Params.Limit, Window: time.Duration(r.Params.WindowMs) * time.Millisecond,
	}
	switch r.Params.Algorithm {
	case "slidingCounter":
		l.Overlap, l.CountRefused = slidegate.OverlapDown, true
	case "slidingWindow":
		l.Overlap, l.Anchor = rule.OverlapUp, slidegate.AnchorFirst
	case "slidingLog":
		l.Algorithm = slidegate.SlidingLog
	case "slidingLogCountRefused":
		l.Algorithm, l.CountRefused = slidegate.SlidingLog, true
	default:
		t.Fatalf("unknown algorithm %q of %s", r.Params.Algorithm, r.System)
	}
	return l
}

func replayTrace(t *testing.T, open Open, name string) {
	text, err := os.ReadFile(name + ".json")
	if err != nil {
		t.Fatal(err)
	}
	var r recording
	if err := json.Unmarshal(text, &r); err != nil {
		t.Fatal(err)
	}
	w := NewTwin(t, open)
	limit := Bind(t, name+fmt.Sprint(time.Now().UnixNano()), r.limit(t))
	lines := readTrace(t, name+".out.jsonl.gz")
	for i, line := range lines {
		w.Now = rule.Micros(line.T) * 1_000
		charge := store.Charge{Limit: limit, Key: line.Key, Cost: line.Cost}
		before := w.Apply(rule.Peek, "", charge)[0]
		after := w.Apply(rule.Take, "", charge)[0]
		// The twin's answers are the rule's; Compare checks the store's against them, and these are checked against the
		// recording.
		if difference := line.differs(r.System, limit.Rule().Quota, before, after); difference != "" {
			t.Fatalf("line %d: %s: %+v", i+1, difference, line)
		}
		if i+1 == len(lines) || lines[i+1].T != line.T {
			if err := w.Compare(); err != nil {
				t.Fatalf("line %d: %v", i+1, err)
			}
		}
	}
	if w.decided != 2*len(lines) || len(lines) < 500 {
		t.Errorf("of %d lines got %d decisions compared", len(lines), w.decided)
	}
}

func (line *recorded) differs(system string, quota int64, before, after rule.Answer) string {
	switch {
	case after.Allowed != *line.Allowed:
		return "the verdict differs"
	case line.Remaining != nil && strings.HasPrefix(system, "cf-") && *line.Remaining != before.Remaining: // theirs is before
		return fmt.Sprintf("%d remained before", before.Remaining)
	case line.Remaining != nil && !strings.HasPrefix(system, "cf-") && after.Allowed && *line.Remaining != after.Remaining:
		return fmt.Sprintf("%d remain", after.Remaining)
	case line.Count != nil && after.Allowed && *line.Count != quota-after.Remaining:
		return fmt.Sprintf("%d units count", quota-after.Remaining)
	}
	return ""
}

func readTrace(t *testing.T, name string) (lines []recorded) {
	t.Helper()
	file, err := os.Open(name)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	unpacked, err := gzip.NewReader(file)
	if err != nil {
		t.Fatal(err)
	}
	for decoder := json.NewDecoder(unpacked); ; {
		var line recorded
		err := decoder.Decode(&line)
		if errors.Is(err, io.EOF) {
			return lines
		}
		if err != nil || line.Allowed == nil {
			t.Fatalf("%s: a line without a verdict: %+v, %v", name, line, err)
		}
		lines = append(lines, line)
	}
}
