package report

import (
	"errors"
	"io"
	"strings"
	"testing"

	"github.com/slidegate/slidegate/cmd/slidegate/internal/replay"
	"github.com/slidegate/slidegate/cmd/slidegate/internal/replay/traffic"
)

func textOf(t *testing.T, d *Document) string {
	t.Helper()
	var b strings.Builder
	if err := Text(&b, d); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

// smallDocument returns a document in which every number is chosen by hand: two limits, and costs above 1.
func smallDocument() *Document {
	const noon = 1794657600000000 // 2026-11-14 12:00:00 UTC
	top := []replay.KeyOutcome{{Key: "user-7", Requests: 1500, Refused: 300, Lockout: 90e6}, {Key: "a\nb", Requests: 10, Refused: 1, Lockout: 350e3}}
	outcome := replay.Outcome{
		Name: "sliding-window", Admitted: 1699, Refused: 301, UnitsAdmitted: 3398, UnitsRefused: 602, KeysTouched: 2, TopRefused: top,
		Lockout: replay.Lockout{Key: "user-7", From: noon + 60e6, Length: 90e6, Ended: true},
		Limits: []replay.LimitOutcome{
			{Limit: "10/1s", Quota: 10, Window: 1e6, Refused: 1, Highest: replay.Highest{Units: 10, Key: "user-7", At: noon}, LiveKeys: 3, StateBytes: 72},
			{Limit: "100/1m", Quota: 100, Window: 60e6, Refused: 300, Highest: replay.Highest{Units: 199, Key: "user-7", At: noon + 1e6},
				WrongAdmitted: 20, WrongRefused: 1, LiveKeys: 4, StateBytes: 1200},
		},
	}
	suggested := replay.Outcome{Admitted: 1999, Refused: 1, KeysTouched: 1, Limits: []replay.LimitOutcome{{Limit: "24/1s", Quota: 24, Window: 1e6, Refused: 1}}}
	return &Document{
		Title: "a small one",
		Sources: []traffic.Source{{Name: "-", Format: "JSON lines", Packing: "zstd", Lines: 2012, Requests: 2000, Filtered: 10, Unreadable: 2,
			KeyMissing: 3, Cut: "unexpected end", Examples: []traffic.BadLine{{Number: 1001, Text: "{\x00", Why: "not JSON"}}}},
		Findings: &replay.Findings{
			Traffic: replay.Traffic{Requests: 2000, Units: 4000, Keys: 4, From: noon, To: noon + 3600e6,
				Order: replay.Order{OutOfOrder: 5, Furthest: 1500e3, TooLate: 1}},
			Outcome: outcome, Compare: []replay.Outcome{outcome},
			Sweep: &replay.Sweep{Knee: 1, Points: []replay.SweepPoint{
				{Quota: 10, Admitted: 1000, Refused: 1000, KeysTouched: 4}, {Quota: 20, Admitted: 1500, Refused: 500, KeysTouched: 2}, {Quota: 24, Admitted: 1999, Refused: 1, KeysTouched: 1}}},
			Suggestion: &replay.Suggestion{Percent: 25, Outcome: suggested},
		},
	}
}

const smallText = `a small one

What was read
  from  format            lines  requests  filtered  unreadable  without key
  -     JSON lines, zstd  2,012     2,000        10           2            3
  5 requests out of order, by up to 1.5s; 1 came too late to be sorted.
  ! - is truncated: unexpected end
  Unreadable in -, the first 1 of 2:
    line 1,001: not JSON
      {\x00

What 10/1s and 100/1m would have done
  time               2026-11-14 12:00:00 to 13:00:00 UTC (1h)
  requests           2,000 of 4 keys
  admitted           1,699 (85.0 %)
  refused            301 (15.1 %)
  keys touched       2 (50.0 %)
  units admitted     3,398 of 4,000
  units refused      602 of 4,000
  highest in any 1m  199 of 100
  longest lock-out   1m 30s (user-7 from 2026-11-14 12:01:00)

Most refused keys
  key     requests  refused   share  longest lock-out
  user-7     1,500      300  20.0 %            1m 30s
  a\nb          10        1  10.0 %             350ms

How accurate it is, and what it costs
  limit   refused  highest/quota  wrong in  wrong out  memory  live keys
  10/1s         1          10/10         0          0    72 B          3
  100/1m      300        199/100        20          1  1.2 kB          4
  Where the most was admitted:
    10/1s
      user-7 at 2026-11-14 12:00:00
    100/1m
      user-7 at 2026-11-14 12:00:01
  highest: the most in any window; wrong in, wrong out: admissions and refusals that an exact
  log would have decided the other way; memory: the most at any time, for live keys, without the
  keys.

The same traffic with other algorithms
  algorithm       admitted  keys  refused  highest/quota  wrong in  wrong out  memory
  sliding-window     1,699     2      301        199/100        20          1  1.3 kB  <- chosen
  keys: touched, that is refused at least once.

Other quotas per second
  quota  refused   share  keys touched   share
     10    1,000  50.0 %             4   100 %  ████████████████████  <- chosen
     20      500  25.0 %             2  50.0 %  ██████████            <- knee
     24        1  0.05 %             1  25.0 %  ▏                     <- suggested
  knee: beyond it, a larger quota gains little.

Suggestion
  The smallest quota that touches at most 25 % of the keys is 24/1s: it would have refused 1
  request (0.05 %) of 1 key (25.0 %).
`

func TestText(t *testing.T) {
	got := textOf(t, smallDocument())
	gotLines, wantLines := strings.Split(got, "\n"), strings.Split(smallText, "\n")
	for i := range max(len(gotLines), len(wantLines)) {
		var g, w string
		if i < len(gotLines) {
			g = gotLines[i]
		}
		if i < len(wantLines) {
			w = wantLines[i]
		}
		if g != w {
			t.Errorf("line %d: got\n%s\nwant\n%s", i+1, g, w)
		}
	}
}

// TestTextFitsATerminal checks that the sample and the hostile document have about 100 columns and only printable
// characters.
func TestTextFitsATerminal(t *testing.T) {
	d := hostile()
	d.Title, d.Command = "", "" // the user's own texts
	for _, d := range []*Document{sample(), d} {
		for line := range strings.Lines(textOf(t, d)) {
			line = strings.TrimSuffix(line, "\n")
			if columns(line) > 110 || strings.HasSuffix(line, " ") || strings.ContainsAny(line, "\x00\x07\x1b\u202e\r\t") {
				t.Errorf("%d columns: %q", columns(line), line)
			}
		}
	}
}

// brokenWriter is a writer that fails.
type brokenWriter struct{}

var errBroken = errors.New("broken")

func (brokenWriter) Write([]byte) (int, error) { return 0, errBroken }

// TestErrors checks that a document without findings is an error, and that errors of the writer are returned.
func TestErrors(t *testing.T) {
	for name, render := range map[string]func(io.Writer, *Document) error{"Text": Text, "JSON": JSON, "CSV": CSV, "HTML": HTML} {
		for _, d := range []*Document{nil, {}} {
			if err := render(io.Discard, d); err == nil || !strings.HasPrefix(err.Error(), "report: Findings: must not be nil") {
				t.Errorf("%s of nothing: %v", name, err)
			}
		}
		if err := render(brokenWriter{}, smallDocument()); !errors.Is(err, errBroken) {
			t.Errorf("%s to a broken writer: %v", name, err)
		}
		if err := render(io.Discard, &Document{Findings: &replay.Findings{Sweep: &replay.Sweep{Knee: -1}, Suggestion: &replay.Suggestion{}}}); err != nil {
			t.Errorf("%s of empty findings: %v", name, err)
		}
	}
}
