package main

import (
	"encoding/csv"
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/slidegate/slidegate/cmd/slidegate/internal/replay"
	"github.com/slidegate/slidegate/internal/testkit/generate"
)

// All output formats contain the same figures.
func TestFormatsAgree(t *testing.T) {
	log := write(t, "made.jsonl", []byte(made(t, generate.Options{Requests: 20_000})))
	args := []string{"replay", log, "--limit", "30/1m", "--compare", "--sweep", "10..100", "--suggest", "1%"}
	var found replay.Findings
	if err := json.Unmarshal([]byte(mustCall(t, append(args, "--format", "json")...)), &found); err != nil {
		t.Fatal(err)
	}
	o := found.Outcome
	if o.Admitted+o.Refused != 20_000 || o.Refused == 0 || len(found.Compare) != 7 || found.Sweep == nil || found.Suggestion == nil {
		t.Fatalf("got %+v, want 20000 decisions of which some are refusals, 7 comparisons, a sweep and a suggestion", found)
	}
	text := mustCall(t, args...)
	for label, n := range map[string]int64{"admitted": o.Admitted, "refused": o.Refused, "keys touched": o.KeysTouched} {
		if !regexp.MustCompile(label + `\s+` + groupDigits(n) + `\s`).MatchString(text) {
			t.Errorf("text: %s %s is missing in\n%s", label, groupDigits(n), text)
		}
	}
	rows, err := csv.NewReader(strings.NewReader(mustCall(t, append(args, "--format", "csv")...))).ReadAll()
	if err != nil {
		t.Fatal(err)
	}
	sections := map[string]int{}
	outcome := rows[0]
	for _, row := range rows {
		if sections[row[0]]++; row[0] == "outcome" {
			outcome = row
		}
	}
	if sections["outcome"] != 1 || sections["limits"] != 1 || sections["compare"] != len(found.Compare) || sections["sweep"] != len(found.Sweep.Points) {
		t.Errorf("got %v rows of CSV by section, want 1 of the outcome, 1 of the limit, and those of the comparison and the sweep", sections)
	}
	if refused := slices.Index(rows[0], "refused"); refused < 0 || outcome[refused] != strconv.FormatInt(o.Refused, 10) {
		t.Errorf("got %q in the CSV, want the outcome with %d refused, as in the JSON", outcome, o.Refused)
	}
	page := filepath.Join(t.TempDir(), "page.html")
	mustCall(t, append(args, "--html", page)...)
	html, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(string(html), groupDigits(o.Refused)) {
		t.Errorf("page: %s is missing", groupDigits(o.Refused))
	}
}

// groupDigits formats a number as reports do, with commas.
func groupDigits(n int64) string {
	text := strconv.FormatInt(n, 10)
	for i := len(text) - 3; i > 0; i -= 3 {
		text = text[:i] + "," + text[i:]
	}
	return text
}

// A policy of a file gives the same results as its limits given by flags.
func TestPolicy(t *testing.T) {
	file := write(t, "slidegate.yaml", []byte("policies:\n  api:\n    key: \"{key}\"\n    limits:\n      - 3/1m\n      - quota: 20\n        window: 1h\n        algorithm: sliding-log\n"))
	lines := write(t, "some.jsonl", []byte(made(t, generate.Options{Shape: "zipf", Requests: 3_000, Keys: 50})))
	byFile := mustCall(t, "replay", "--config", file, "--format", "csv", lines)
	byHand := mustCall(t, "replay", "--limit", "3/1m", "--limit", "20/1h sliding-log", "--format", "csv", lines)
	if byFile != byHand {
		t.Errorf("got by file:\n%swant as by flags:\n%s", byFile, byHand)
	}
	if wrong := call(t, "replay", "--config", file, "--policy", "ap", lines); wrong.status != exitFailure || !strings.Contains(wrong.err, `"api"`) {
		t.Errorf("unknown policy: got status %d, %s", wrong.status, wrong.err)
	}
}

// The flag --cost replaces the costs of JSON lines.
func TestCost(t *testing.T) {
	lines := write(t, "costs.jsonl", []byte(`{"t":1767600000000,"key":"a","cost":3}`+"\n"+`{"t":1767600000001,"key":"a","cost":3}`+"\n"))
	for _, test := range []struct {
		flags []string
		units int64
	}{{nil, 6}, {[]string{"--cost", "1"}, 2}, {[]string{"--cost", "5"}, 10}} {
		var found replay.Findings
		args := append([]string{"replay", "--format", "json", lines}, test.flags...)
		if err := json.Unmarshal([]byte(mustCall(t, args...)), &found); err != nil {
			t.Fatal(err)
		}
		if found.Traffic.Units != test.units {
			t.Errorf("%v: got %d units, want %d", test.flags, found.Traffic.Units, test.units)
		}
	}
}
