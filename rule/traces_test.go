package rule

import (
	"bufio"
	"compress/gzip"
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// The rule reproduces every recorded decision of the limiters that Slidegate replaces. A recording is two files in a
// directory of testdata/traces: X.json describes the limit, and X.out.jsonl (or X.out.jsonl.gz) contains the requests and
// responses. Further recordings can be added there.

// recording is the content of X.json.
type recording struct {
	System string
	Params struct {
		Algorithm string
		Limit     int64
		WindowMs  int64
	}
}

// recorded is a line of X.out.jsonl. Fields that a system does not report are nil.
type recorded struct {
	T         int64 // milliseconds since the epoch
	Key       string
	Cost      int64
	Allowed   *bool
	Remaining *int64
	Count     *int64 // Redis: members of the sorted set right after the request
	Prev, Cur *int64 // Deno KV: the two counts right before the request
}

// limit returns the options that reproduce a system.
func (r *recording) limit(t *testing.T) Limit {
	t.Helper()
	l := Limit{Algorithm: SlidingWindow, Quota: r.Params.Limit, Window: Micros(r.Params.WindowMs) * milli}
	switch r.Params.Algorithm {
	case "slidingCounter": // Deno KV
		l.Overlap, l.CountRefused = OverlapDown, true
	case "slidingWindow": // pg-ratelimit
		l.Overlap, l.Anchor = OverlapUp, AnchorFirst
	case "slidingLog": // Workers KV and Durable Objects
		l.Algorithm = SlidingLog
	case "slidingLogCountRefused": // the Redis sorted set
		l.Algorithm, l.CountRefused = SlidingLog, true
	default:
		t.Fatalf("unknown algorithm %q of %s", r.Params.Algorithm, r.System)
	}
	return normal(t, l)
}

func TestTraces(t *testing.T) {
	files, err := filepath.Glob(filepath.Join("testdata", "traces", "*", "*.json"))
	if err != nil {
		t.Fatal(err)
	}
	if len(files) == 0 {
		t.Fatal("found no recordings")
	}
	for _, file := range files {
		name := strings.TrimSuffix(file, ".json")
		t.Run(filepath.Base(filepath.Dir(file))+"/"+filepath.Base(name), func(t *testing.T) { replayTrace(t, name) })
	}
}

func replayTrace(t *testing.T, name string) {
	text, err := os.ReadFile(name + ".json")
	if err != nil {
		t.Fatal(err)
	}
	var r recording
	if err := json.Unmarshal(text, &r); err != nil {
		t.Fatal(err)
	}
	l := r.limit(t)
	keys := map[string]*State{}
	lines, admissions, compared, wrong := 0, 0, 0, 0
	for line := range traceLines(t, name+".out.jsonl") {
		s := keys[line.Key]
		if s == nil {
			s = new(State)
			keys[line.Key] = s
		}
		lines++
		difference, more := line.replay(t, &l, s, r.System)
		if compared += more; difference != "" {
			if wrong++; wrong <= 5 {
				t.Errorf("line %d: %s: %+v", lines, difference, line)
			}
		}
		if *line.Allowed {
			admissions++
		}
	}
	t.Logf("%d decisions over %d keys, %d of them admissions, %d further numbers compared: %d differ",
		lines, len(keys), admissions, compared, wrong)
	if lines == 0 || compared == 0 {
		t.Error("nothing was compared")
	}
}

// replay decides a recorded request by the rule. It returns what differs, and how many numbers it compared in addition to
// the decision.
func (line *recorded) replay(t *testing.T, l *Limit, s *State, system string) (difference string, compared int) {
	now := Micros(line.T) * milli
	before := l.viewAt(s, now)
	a, changed := l.TakeOne(s, now, line.Cost)
	checkTimes(t, l, s, step{at: now}, line.Cost, &a)
	differs := func(what string, theirs *int64, ours int64) {
		compared++
		if *theirs != ours && difference == "" {
			difference = sprint(what, ours, *theirs)
		}
	}
	if a.Allowed != *line.Allowed {
		return "the decision differs", compared
	}
	if line.Remaining != nil {
		switch {
		case strings.HasPrefix(system, "cf-"): // they report it as of before the request
			differs("remaining before", line.Remaining, max(0, before.Room))
		case a.Allowed: // the others report 0 in every refusal, we report what is left
			differs("remaining", line.Remaining, a.Remaining)
		}
	}
	if line.Count != nil && a.Allowed {
		differs("count", line.Count, l.Quota-a.Remaining)
	}
	if line.Prev != nil && line.Cur != nil && changed {
		differs("previous count", line.Prev, s.Counts[1])
		differs("current count", line.Cur, s.Counts[0]-line.Cost)
	}
	return difference, compared
}

// traceLines returns the lines of a file, or of the same file compressed.
func traceLines(t *testing.T, name string) func(yield func(*recorded) bool) {
	t.Helper()
	file, err := os.Open(name)
	packed := errors.Is(err, fs.ErrNotExist)
	if packed {
		file, err = os.Open(name + ".gz")
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { file.Close() })
	var reader io.Reader = bufio.NewReader(file)
	if packed {
		if reader, err = gzip.NewReader(reader); err != nil {
			t.Fatal(err)
		}
	}
	return func(yield func(*recorded) bool) {
		for decoder := json.NewDecoder(reader); ; {
			var line recorded
			err := decoder.Decode(&line)
			if errors.Is(err, io.EOF) {
				return
			}
			if err != nil || line.Allowed == nil {
				t.Fatalf("%s: a line without a decision: %+v, %v", name, line, err)
			}
			if !yield(&line) {
				return
			}
		}
	}
}
