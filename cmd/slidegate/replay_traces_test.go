package main

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// The command reproduces every recorded decision of the limiters that Slidegate replaces.

// choices are the options of the limit that reproduce a limiter, by its name.
var choices = map[string]string{
	"deno-kv":    " overlap=down anchor=clock count-refused",
	"pg-sliding": " overlap=up anchor=first",
	"cf-kv":      " sliding-log",
	"cf-do":      " sliding-log",
	"redis-zset": " sliding-log count-refused",
}

// decidedLine is a line of a recording, or of the output of --decisions.
type decidedLine struct {
	T       json.RawMessage
	Key     string
	Cost    int64
	Allowed bool

	Remaining    *int64
	RetryAfterUS *int64 `json:"retry_after_us"`
	ResetAfterUS *int64 `json:"reset_after_us"`
}

func TestTraces(t *testing.T) {
	files, err := filepath.Glob(filepath.FromSlash("../../rule/testdata/traces/*/*.out.jsonl.gz"))
	if err != nil || len(files) < 10 {
		t.Fatalf("got %d recordings, %v, want at least 10", len(files), err)
	}
	for _, file := range files {
		system := filepath.Base(filepath.Dir(file))
		t.Run(system+"/"+strings.TrimSuffix(filepath.Base(file), ".out.jsonl.gz"), func(t *testing.T) {
			ours := filepath.Join(t.TempDir(), "decisions.jsonl")
			quota, limit := recordedLimit(t, file)
			mustCall(t, "replay", "--limit", limit+choices[system], "--decisions", ours, file)
			compare(t, quota, readDecided(t, file), readDecided(t, ours))
		})
	}
}

func compare(t *testing.T, quota int64, theirs, ours []decidedLine) {
	t.Helper()
	if len(theirs) != len(ours) || len(ours) == 0 {
		t.Fatalf("want %d decisions as recorded, got %d", len(theirs), len(ours))
	}
	refused := 0
	for i, o := range ours {
		r := theirs[i]
		if o.Allowed != r.Allowed || !bytes.Equal(o.T, r.T) || o.Key != r.Key || o.Cost != r.Cost {
			t.Fatalf("line %d: got %+v, want %+v as recorded", i+1, o, r)
		}
		if o.Remaining == nil || o.ResetAfterUS == nil {
			t.Fatalf("line %d: a field is missing: %+v", i+1, o)
		}
		if never := o.Cost > quota; never != (o.RetryAfterUS == nil) || !never && o.Allowed != (*o.RetryAfterUS == 0) {
			t.Fatalf("line %d: cost %d, allowed %v: wrong retry_after_us", i+1, o.Cost, o.Allowed)
		}
		if !o.Allowed {
			refused++
		}
	}
	if refused == 0 || refused == len(ours) {
		t.Errorf("got %d of %d refused: the recording tests little", refused, len(ours))
	}
}

// recordedLimit returns the limit of a recording: its quota, and the limit as the value of --limit.
func recordedLimit(t *testing.T, file string) (quota int64, limit string) {
	t.Helper()
	text, err := os.ReadFile(strings.TrimSuffix(file, ".out.jsonl.gz") + ".json")
	if err != nil {
		t.Fatal(err)
	}
	var about struct {
		Params struct{ Limit, WindowMs int64 }
	}
	if err := json.Unmarshal(text, &about); err != nil {
		t.Fatal(err)
	}
	quota = about.Params.Limit
	return quota, fmt.Sprintf("%d/%dms", quota, about.Params.WindowMs)
}

func readDecided(t *testing.T, name string) (all []decidedLine) {
	t.Helper()
	file, err := os.Open(name)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	var in io.Reader = file
	if strings.HasSuffix(name, ".gz") {
		if in, err = gzip.NewReader(file); err != nil {
			t.Fatal(err)
		}
	}
	lines := bufio.NewScanner(in)
	for lines.Scan() {
		var d decidedLine
		if err := json.Unmarshal(lines.Bytes(), &d); err != nil {
			t.Fatalf("%s: %v in %s", name, err, lines.Bytes())
		}
		all = append(all, d)
	}
	if err := lines.Err(); err != nil {
		t.Fatal(err)
	}
	return all
}
