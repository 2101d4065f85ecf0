package replay

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/slidegate/slidegate"
	"github.com/slidegate/slidegate/cmd/slidegate/internal/replay/traffic"
	"github.com/slidegate/slidegate/rule"
	"pgregory.net/rapid"
)

// These tests check that there is one line per request, in the order of the input, with its decision.

// decisionLine is a decoded line.
type decisionLine struct {
	T          json.RawMessage `json:"t"`
	Key        string          `json:"key"`
	Cost       int64           `json:"cost"`
	Allowed    bool            `json:"allowed"`
	Remaining  int64           `json:"remaining"`
	RetryAfter *int64          `json:"retry_after_us"`
	ResetAfter int64           `json:"reset_after_us"`
}

// decisionLines returns the lines that a replay wrote.
func decisionLines(t tb, opts Options, lines traffic.Lines) string {
	t.Helper()
	var out bytes.Buffer
	opts.Decisions = &out
	if _, err := Run(context.Background(), lines, opts); err != nil {
		t.Fatal(err)
	}
	return out.String()
}

func TestDecisionsByHand(t *testing.T) {
	opts := Options{Limits: []slidegate.Limit{slidegate.MustParseLimit("2/1m sliding-window"), slidegate.MustParseLimit("3/1h sliding-window")}, Sort: time.Minute}
	reqs := []testRequest{
		{origin + 20*second, "a", 1},     // decided third: 2 are used of each limit; the first has none left
		{origin, "a", 1},                 // decided first: 1 of 2 remains, and 2 of 3
		{origin + 10*second, "a", 1},     // decided second
		{origin + 30*second, "\"\n", 4},  // never
		{origin + 30*second, "b", 2},     // 0 of 2, 1 of 3
		{origin + 150*second, "a", 1},    // the first limit is free, of the second 1 remains
		{origin + 151*second, "a", 1},    // refused by the second alone
		{origin + 151*second, "\xff", 0}, // a peek
	}
	got := decisionLines(t, opts, &list{rest: reqs, spell: func(at rule.Micros) string {
		return fmt.Sprintf(`"+%ds"`, (at-origin)/second)
	}})
	// After 2 units in the first minute, 1 more fits when half of them are gone: at 90s. In the hour, 3 units are full until
	// a third of them is gone: 20 minutes into the next one.
	want := `{"t":"+20s","key":"a","cost":1,"allowed":false,"remaining":0,"retry_after_us":70000000,"reset_after_us":100000000}
{"t":"+0s","key":"a","cost":1,"allowed":true,"remaining":1,"retry_after_us":0,"reset_after_us":120000000}
{"t":"+10s","key":"a","cost":1,"allowed":true,"remaining":0,"retry_after_us":0,"reset_after_us":110000000}
{"t":"+30s","key":"\"\n","cost":4,"allowed":false,"remaining":2,"retry_after_us":null,"reset_after_us":0}
{"t":"+30s","key":"b","cost":2,"allowed":true,"remaining":0,"retry_after_us":0,"reset_after_us":90000000}
{"t":"+150s","key":"a","cost":1,"allowed":true,"remaining":0,"retry_after_us":0,"reset_after_us":7050000000}
{"t":"+151s","key":"a","cost":1,"allowed":false,"remaining":0,"retry_after_us":4649000000,"reset_after_us":7049000000}
{"t":"+151s","key":"\ufffd","cost":0,"allowed":true,"remaining":2,"retry_after_us":0,"reset_after_us":0}
`
	if got != want {
		t.Errorf("got\n%swant\n%s", got, want)
	}
}

// For any traffic, sorted or not, the lines are in the order of the input, with the decisions of the rule in order of
// time.
func TestDecisionsAreInInputOrder(t *testing.T) {
	property(t, 250, func(t *rapid.T) {
		limits := drawLimits(t)
		reqs := drawTraffic(t, limits[0].Window, 60, around)
		opts := Options{Limits: limits, Sort: rapid.SampledFrom([]time.Duration{0, time.Hour}).Draw(t, "sort")}
		indexes := make([]int, len(reqs)) // indexes in the input, in the order of the decisions
		for i := range indexes {
			indexes[i] = i
		}
		if opts.Sort > 0 {
			slices.SortStableFunc(indexes, func(a, b int) int { return cmp.Compare(reqs[a].at, reqs[b].at) })
		}
		var sorted []testRequest
		for _, index := range indexes {
			sorted = append(sorted, reqs[index])
		}
		want := make([]modelDecision, len(reqs))
		for i, v := range decideAll(t, limits, sorted) {
			want[indexes[i]] = v
		}
		lines := strings.SplitAfter(decisionLines(t, opts, &list{rest: reqs}), "\n")
		if len(lines) != len(reqs)+1 || lines[len(reqs)] != "" {
			t.Fatalf("got %d lines for %d requests", len(lines)-1, len(reqs))
		}
		for i := range want {
			checkDecision(t, lines[i], &want[i])
		}
	})
}

// The same over many batches, some of which only have beginnings of lines, because their requests still wait.
func TestDecisionsOverManyBatches(t *testing.T) {
	long := strings.Repeat("k", 1_200)
	var reqs []testRequest
	for i := range rule.Micros(4_500) {
		reqs = append(reqs, testRequest{origin + i*milli + i*i%997*milli, fmt.Sprint(long, i*i%101), 1 + int64(i%3)})
	}
	opts := Options{Limits: []slidegate.Limit{slidegate.MustParseLimit("3/1s")}, Sort: time.Second}
	indexes := make([]int, len(reqs))
	for i := range indexes {
		indexes[i] = i
	}
	slices.SortStableFunc(indexes, func(a, b int) int { return cmp.Compare(reqs[a].at, reqs[b].at) })
	var sorted []testRequest
	for _, index := range indexes {
		sorted = append(sorted, reqs[index])
	}
	want := make([]modelDecision, len(reqs))
	for i, v := range decideAll(t, opts.Limits, sorted) {
		want[indexes[i]] = v
	}
	lines := strings.SplitAfter(decisionLines(t, opts, &list{rest: reqs}), "\n")
	if len(lines) != len(reqs)+1 {
		t.Fatalf("got %d lines for %d requests", len(lines)-1, len(reqs))
	}
	for i := range want {
		checkDecision(t, lines[i], &want[i])
	}
}

func checkDecision(t tb, line string, want *modelDecision) {
	t.Helper()
	var got decisionLine
	decoder := json.NewDecoder(strings.NewReader(line))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(&got); err != nil {
		t.Fatalf("%s is not a decision: %v", line, err)
	}
	deciding := want.answers[0]
	for _, a := range want.answers {
		switch {
		case want.allowed && (a.Remaining < deciding.Remaining || a.Remaining == deciding.Remaining && a.NextAfter > deciding.NextAfter):
			deciding = a
		case !want.allowed && !a.Allowed && (deciding.Allowed || a.RetryAfter > deciding.RetryAfter):
			deciding = a
		}
	}
	retry := int64(-1)
	if got.RetryAfter != nil {
		retry = *got.RetryAfter
	}
	if wanted := deciding.RetryAfter; wanted != rule.Micros(retry) && !(wanted == rule.Never && retry == -1) {
		t.Fatalf("%s: got retry_after_us %d, want %d", line, retry, wanted)
	}
	got.RetryAfter = nil
	same := string(got.T) == fmt.Sprint(want.at) && got.Key == want.key && got.Cost == want.cost &&
		got.Allowed == want.allowed && got.Remaining == deciding.Remaining && rule.Micros(got.ResetAfter) == deciding.ResetAfter
	if !same {
		t.Fatalf("got %s, want %+v of %+v", line, deciding, want.testRequest)
	}
}

// FuzzDecisionKey checks that the line of any key is one line of JSON with that key, except for invalid UTF-8.
func FuzzDecisionKey(f *testing.F) {
	for _, key := range []string{"", "plain", `quo"te`, `back\slash`, "new\nline", "\x00\x1f\x7f", "é<&>\u2028", "\xff\xfe", "\xed\xa0\x80", "a\xf0\x9f"} {
		f.Add([]byte(key), int64(1))
	}
	f.Fuzz(func(t *testing.T, key []byte, cost int64) {
		before := bytes.Clone(key)
		text := appendRequest([]byte("what was there"), &traffic.Line{Key: key, Cost: cost, Time: []byte("17.50")})
		line, found := bytes.CutPrefix(text, []byte("what was there"))
		if !found || bytes.Count(line, []byte("\n")) != 1 || line[len(line)-1] != '\n' {
			t.Fatalf("%q is not one more line", text)
		}
		var got decisionLine
		if err := json.Unmarshal(append(line[:len(line)-1], '}'), &got); err != nil {
			t.Fatalf("%q is not a decision: %v", line, err)
		}
		if want := string([]rune(string(key))); got.Key != want || got.Cost != cost || string(got.T) != "17.50" {
			t.Fatalf("%q is read as %+v, want the key %q", line, got, want)
		}
		if !bytes.Equal(key, before) {
			t.Fatalf("the key %q was changed to %q", before, key)
		}
	})
}

// The memory for lines that have been written is reused.
func TestDecisionsReuseMemory(t *testing.T) {
	var out bytes.Buffer
	d := newDecisions(&out)
	answers := []rule.Answer{{Allowed: true}}
	var encoded []byte
	for range 100 {
		encoded = appendRequest(encoded, &traffic.Line{Key: []byte("somebody"), Time: []byte("1")})
	}
	for batch := range int64(1_000) {
		d.addLines(encoded)
		if batch == 0 {
			continue
		}
		for i := range int64(100) { // pairs are swapped
			d.record((batch-1)*100+i^1, answers)
		}
		if len(d.waiting) != 0 {
			t.Fatalf("after batch %d, %d decisions still wait", batch, len(d.waiting))
		}
	}
	if err := d.flush(); err != nil {
		t.Fatal(err)
	}
	if lines := bytes.Count(out.Bytes(), []byte("\n")); lines != 99_900 {
		t.Errorf("got %d lines, want 99,900", lines)
	}
	if cap(d.text) > 20*len(encoded) {
		t.Errorf("got a buffer of %d bytes for 100 lines of %d bytes in total", cap(d.text), len(encoded))
	}
}
