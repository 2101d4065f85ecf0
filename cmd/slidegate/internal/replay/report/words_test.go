package report

import (
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"

	"pgregory.net/rapid"

	"github.com/slidegate/slidegate/cmd/slidegate/internal/replay"
	"github.com/slidegate/slidegate/cmd/slidegate/internal/replay/report/reporttest"
	"github.com/slidegate/slidegate/rule"
)

func TestNumber(t *testing.T) {
	for n, want := range map[int64]string{
		0: "0", 7: "7", 999: "999", 1000: "1,000", 123456: "123,456", 1234567: "1,234,567", -1234: "-1,234",
		-9223372036854775808: "-9,223,372,036,854,775,808",
	} {
		if got := number(n); got != want {
			t.Errorf("number(%d) = %q, want %q", n, got, want)
		}
	}
}

func TestPercent(t *testing.T) {
	for _, c := range []struct {
		part, whole int64
		want        string
	}{
		{0, 0, "0 %"}, {0, 5, "0 %"}, {5, 5, "100 %"}, {1, 2, "50.0 %"}, {1, 3, "33.3 %"}, {1, 1000, "0.1 %"}, {5, 10000, "0.05 %"}, {2, 2012, "0.1 %"},
		{1, 100000, "< 0.01 %"}, {99999, 100000, "> 99.9 %"}, {999, 1000, "99.9 %"}, {12, 1000, "1.2 %"},
	} {
		if got := percent(c.part, c.whole); got != c.want {
			t.Errorf("percent(%d, %d) = %q, want %q", c.part, c.whole, got, c.want)
		}
	}
}

// TestPercentIsHonest checks that only none is 0 %, and only all is 100 %.
func TestPercentIsHonest(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		whole := rapid.Int64Range(1, 1<<53).Draw(t, "whole")
		part := rapid.Int64Range(0, whole).Draw(t, "part")
		text := percent(part, whole)
		zero := text == "0 %" || text == "0.0 %" || text == "0.00 %"
		if zero != (part == 0) || strings.HasPrefix(text, "100") != (part == whole) {
			t.Fatalf("%d of %d: got %s", part, whole, text)
		}
	})
}

func TestSpan(t *testing.T) {
	const s, m, h, d = rule.Micros(1e6), rule.Micros(60e6), rule.Micros(3600e6), rule.Micros(24 * 3600e6)
	for length, want := range map[rule.Micros]string{
		0: "0s", 1: "1µs", 999: "999µs", 1500: "1ms", 350000: "350ms", s: "1s", 4*s + 250000: "4.2s", 10*s + 900000: "10s", 59 * s: "59s",
		m: "1m", 90 * s: "1m 30s", 2*h + 5*m: "2h 5m", 2*h + 5*m + 59*s: "2h 5m", h + 30*s: "1h", 3*d + 4*h: "3d 4h", 7 * d: "7d",
		-90 * s: "-1m 30s",
	} {
		if got := span(length); got != want {
			t.Errorf("span(%d) = %q, want %q", length, got, want)
		}
	}
}

func TestSize(t *testing.T) {
	for n, want := range map[int64]string{
		0: "0 B", 999: "999 B", 1000: "1.0 kB", 12345: "12.3 kB", 123456: "123 kB", 999600: "1.0 MB", 5_000_000_000: "5.0 GB", 7e15: "7000.0 TB",
	} {
		if got := size(n); got != want {
			t.Errorf("size(%d) = %q, want %q", n, got, want)
		}
	}
}

func TestBetween(t *testing.T) {
	const day = rule.Micros(24 * 3600e6)
	for _, c := range []struct {
		from, to rule.Micros
		want     string
	}{
		{0, 3661e6, "1970-01-01 00:00:00 to 01:01:01 UTC"},
		{day - 1e6, day, "1970-01-01 23:59:59 to 1970-01-02 00:00:00 UTC"},
	} {
		if got := between(c.from, c.to); got != c.want {
			t.Errorf("between(%d, %d) = %q, want %q", c.from, c.to, got, c.want)
		}
	}
}

func TestVisible(t *testing.T) {
	for _, c := range []struct {
		text  string
		width int
		want  string
	}{
		{"user-7", 40, "user-7"},
		{"", 40, `""`},
		{"a\tb\x1b[0m", 40, `a\tb\x1b[0m`},
		{"\xff\x00é", 40, `\xff\x00é`},
		{"a\u202eb\u00a0c", 40, `a\u202eb\u00a0c`},
		{"0123456789", 10, "0123456789"},
		{"0123456789X", 10, "01234…789X"},
		{"日本語日本語", 7, "日…語"}, // two columns each: one fits into the 3 columns before the ellipsis, and one into the 3 after it
		{strings.Repeat("a", 1e6) + "z", 6, "aaa…az"},
	} {
		if got := visible(c.text, c.width); got != c.want {
			t.Errorf("visible(%.20q, %d) = %q, want %q", c.text, c.width, got, c.want)
		}
	}
}

// TestVisibleIsInert checks that any key is shown as printable, valid text of at most the given width.
func TestVisibleIsInert(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		text := string(rapid.SliceOf(rapid.Byte()).Draw(t, "bytes"))
		if rapid.Bool().Draw(t, "runes") {
			text = rapid.String().Draw(t, "text")
		}
		checkInert(t, text)
	})
}

// FuzzVisible checks the same with fuzzing.
func FuzzVisible(f *testing.F) {
	for _, k := range reporttest.HostileKeys() {
		f.Add(k)
	}
	f.Fuzz(func(t *testing.T, text string) { checkInert(t, text) })
}

func checkInert(t interface{ Fatalf(string, ...any) }, text string) {
	shown := visible(text, 20)
	if !utf8.ValidString(shown) || columns(shown) > 20 {
		t.Fatalf("%q is shown as %q, %d columns", text, shown, columns(shown))
	}
	for _, r := range shown {
		if !unicode.IsPrint(r) {
			t.Fatalf("%q is shown as %q, with %U", text, shown, r)
		}
	}
}

func TestChoiceWords(t *testing.T) {
	for text, want := range map[string]string{
		"100/1m":                                    "hard cap",
		"600/1m count-refused":                      "hard cap, refused requests count",
		"100/1m sliding-window":                     "sliding window",
		"1000/month zone=Europe/Berlin":             "fixed window by the calendar in Europe/Berlin",
		"1000/year":                                 "fixed window by the calendar in UTC",
		"100/1m segments=6 overlap=whole":           "sliding window of 6 segments, overlap whole",
		"20/1s token-bucket burst=40":               "token bucket with bursts of 40",
		"5/1h fixed-window anchor=first":            "fixed window, anchor first",
		"5/1h sliding-log count-refused name=login": "sliding log, refused requests count",
		"not a limit":                               "",
	} {
		if got := choiceWords(text); got != want {
			t.Errorf("choiceWords(%q) = %q, want %q", text, got, want)
		}
	}
}

func TestVerdict(t *testing.T) {
	findings := func(admitted, refused, touched, highest int64) *replay.Findings {
		return &replay.Findings{
			Traffic: replay.Traffic{Requests: admitted + refused, Keys: 10},
			Outcome: replay.Outcome{Admitted: admitted, Refused: refused, KeysTouched: touched, Limits: []replay.LimitOutcome{
				{Limit: "100/1m", Quota: 100, Window: 60e6, Highest: replay.Highest{Units: highest}}}},
		}
	}
	for _, c := range []struct {
		f    *replay.Findings
		want string
	}{
		{findings(0, 0, 0, 0), "There were no requests to decide."},
		{findings(2000, 0, 0, 80), "This limit would have refused nothing: all 2,000 requests of 10 keys would have been admitted."},
		{findings(1900, 100, 1, 100), "This limit would have refused 100 of 2,000 requests (5.0 %) and touched 1 of 10 keys (10.0 %). " +
			"No key ever got more than its quota in any window."},
		{findings(1900, 100, 1, 199), "This limit would have refused 100 of 2,000 requests (5.0 %) and touched 1 of 10 keys (10.0 %). " +
			"At worst, one key got 199 units within 1m, 1.99 times the quota of 100."},
	} {
		if got := verdict(c.f); got != c.want {
			t.Errorf("verdict: got %q\nwant     %q", got, c.want)
		}
	}
}

// For a limit that weights its windows, the text names the limit that would not have leaked; for others it does not.
func TestExcessNamesTheDefault(t *testing.T) {
	for limit, want := range map[string]string{
		"200/1m segments=1":        " This window weighs its oldest part; 200/1m never exceeds its quota.",
		"20000/1m sliding-window":  " This window weighs its oldest part; 20000/1m never exceeds its quota.",
		"60/1001us sliding-window": "", // the default has no such window
		"60/1m":                    "",
		"60/1m fixed-window":       "",
		"nonsense":                 "",
	} {
		o := replay.Outcome{Limits: []replay.LimitOutcome{{Limit: limit, Quota: 60, Window: 60e6, Highest: replay.Highest{Units: 93}}}}
		if got := excess(&o); got != "At worst, one key got 93 units within 1m, 1.55 times the quota of 60."+want {
			t.Errorf("%s: %s", limit, got)
		}
	}
}
