package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/slidegate/slidegate/internal/testkit/generate"
)

// Two files are replayed on one log: each makes the decisions that it makes alone, and the report lists the keys that differ.
func TestReplayAgainst(t *testing.T) {
	before := write(t, "old.yaml", []byte(`
policies:
  api: {match: /api/, limits: [5/1h fixed-window]}
  gone: {match: /static/, limits: [2/1h fixed-window]}
`))
	after := write(t, "new.yaml", []byte(`
policies:
  api: {match: /api/, limits: [3/1h fixed-window], block: [203.0.113.66]}
  login: {match: POST /login, key: "{address} {path}", limits: [1/1h fixed-window]}
`))
	var log []string
	log = append(log, times(7, "203.0.113.7 GET /api/a")...)    // 4 refused after, 2 before: 2 newly refused
	log = append(log, times(2, "203.0.113.66 GET /api/b")...)   // newly refused by the list
	log = append(log, times(4, "203.0.113.7 GET /static/x")...) // 2 newly admitted: they no longer match a policy
	log = append(log, times(3, "203.0.113.8 POST /login")...)   // 2 newly refused
	log = append(log, times(9, "203.0.113.8 GET /")...)         // matches no policy
	access := accessLog(t, log...)
	args := []string{"--config", after, "--against", before, access}
	found := findings(t, args...)
	alone, old := findings(t, "--config", after, access), findings(t, "--config", before, access)
	a := found.Against
	if a == nil || a.Outcome.Refused != old.Outcome.Refused || found.Outcome.Refused != alone.Outcome.Refused || a.Outcome.Refused != 4 || found.Outcome.Refused != 8 {
		t.Fatalf("got %+v and %+v, want 8 refused after and 4 before", found.Outcome, a)
	}
	if fmt.Sprint(found.Policies) != fmt.Sprint(alone.Policies) || fmt.Sprint(a.Policies) != fmt.Sprint(old.Policies) {
		t.Errorf("got policies %v and %v, want those of each file alone: %v and %v", found.Policies, a.Policies, alone.Policies, old.Policies)
	}
	if found.Sources[0].Unmatched != 9 || found.Traffic.Keys != alone.Traffic.Keys {
		t.Errorf("got %d unmatched requests and %d keys, want 9 and %d", found.Sources[0].Unmatched, found.Traffic.Keys, alone.Traffic.Keys)
	}
	if d := a.NewlyRefused; d.Requests != 6 || d.Keys != 3 || len(d.Top) != 3 || d.Top[0].Requests != 2 || d.Profile.Paths[0].Requests != 2 {
		t.Errorf("newly refused: got %+v, want 6 of 3 keys, 2 each", d)
	}
	if d := a.NewlyAdmitted; d.Requests != 2 || d.Keys != 1 || d.Top[0].Policy != "gone" || d.Top[0].Key != "203.0.113.7" || d.Profile.Paths[0].Value != "/static/x" {
		t.Errorf("newly admitted: got %+v, want 2 of 203.0.113.7 under gone", d)
	}
	text := mustCall(t, append([]string{"replay"}, args...)...)
	page := filepath.Join(t.TempDir(), "page.html")
	mustCall(t, append([]string{"replay", "--html", page}, args...)...)
	html, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"6 newly refused (3 keys), and 2 newly admitted (1 key)"} {
		if !strings.Contains(strings.Join(strings.Fields(text), " "), want) || !strings.Contains(string(html), want) {
			t.Errorf("%q is missing in the text or on the page:\n%s", want, text)
		}
	}
	if !strings.Contains(string(html), `id="s-newly_refused"`) {
		t.Error("the page does not list what is newly refused")
	}
	same := mustCall(t, "replay", "--config", after, "--against", after, access)
	if want := "would have decided all 12 requests alike"; !strings.Contains(strings.Join(strings.Fields(same), " "), want) {
		t.Errorf("a file against itself: %q is missing in\n%s", want, same)
	}
}

// All results but the comparison are about the first file.
func TestReplayAgainstChangesNothingElse(t *testing.T) {
	before := write(t, "old.yaml", []byte("policies:\n  a: {key: \"{key}\", limits: [30/1m]}\n"))
	after := write(t, "new.yaml", []byte("policies:\n  a: {key: \"{key}\", limits: [60/1m]}\n"))
	log := []string{write(t, "made.jsonl", []byte(made(t, generate.Options{Requests: 20_000})))}
	found := findings(t, append(log, "--config", after, "--against", before, "--compare", "--suggest", "1%", "--sweep", "10..100")...)
	alone := findings(t, append(log, "--config", after, "--compare", "--suggest", "1%", "--sweep", "10..100")...)
	old := findings(t, append(log, "--config", before)...)
	if found.Outcome.Refused != alone.Outcome.Refused || found.Against.Outcome.Refused != old.Outcome.Refused || old.Outcome.Refused <= alone.Outcome.Refused {
		t.Errorf("got %d and %d refused, want %d and %d", found.Outcome.Refused, found.Against.Outcome.Refused, alone.Outcome.Refused, old.Outcome.Refused)
	}
	if change := found.Against.NewlyAdmitted.Requests - found.Against.NewlyRefused.Requests; change != old.Outcome.Refused-alone.Outcome.Refused {
		t.Errorf("got %d more admitted, want %d", change, old.Outcome.Refused-alone.Outcome.Refused)
	}
	found.Against = nil
	if got, want := asJSON(t, found.Findings), asJSON(t, alone.Findings); got != want {
		t.Errorf("other findings: got\n%s\nwant those of the first file alone:\n%s", got, want)
	}
	for _, wrong := range [][]string{
		{"--against", before},
		{"--config", after, "--against", before, "--decisions", filepath.Join(t.TempDir(), "out")},
		{"--config", after, "--against", before + "x"},
		{"--config", after, "--against", before, "--policy", "b"},
	} {
		if got := call(t, append(append([]string{"replay"}, log...), wrong...)...); got.status == 0 || got.err == "" {
			t.Errorf("%v: got status %d, %q; want an error", wrong, got.status, got.err)
		}
	}
}

func asJSON(t *testing.T, value any) string {
	t.Helper()
	text, err := json.Marshal(value)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}
