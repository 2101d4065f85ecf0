package report

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/slidegate/slidegate/cmd/slidegate/internal/replay"
	"github.com/slidegate/slidegate/cmd/slidegate/internal/replay/report/reporttest"
)

// renderPage returns the page of d.
func renderPage(t *testing.T, d *Document) string {
	t.Helper()
	var b strings.Builder
	if err := HTML(&b, d); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

// TestPageNeedsNoNetwork looks for references that a browser would follow.
func TestPageNeedsNoNetwork(t *testing.T) {
	page := renderPage(t, sample())
	library := string(load().Library)
	if !strings.Contains(page, library) {
		t.Fatal("the page does not contain the unmodified library")
	}
	ours := strings.Replace(page, library, "", 1)
	for _, found := range regexp.MustCompile(`(?i)\b(src|href|action|srcset|url|@import)\s*[=(]\s*["']?[^"'\s>)]+`).FindAllString(ours, -1) {
		if !strings.Contains(found, "data:") && !strings.Contains(found, `"#`) {
			t.Errorf("the page refers to %s", found)
		}
	}
	if !strings.Contains(page, "default-src &#39;none&#39;") {
		t.Error("the page has no Content-Security-Policy that forbids what it does not need")
	}
}

// The policy of a suggestion can be copied from the page, line by line.
func TestPagePolicyHasLines(t *testing.T) {
	if page := renderPage(t, sample()); !strings.Contains(page, "\npolicies:\n  suggested:\n") {
		t.Error("the page does not contain the suggested policy in lines")
	}
}

// TestLibraryChecksum compares the library with the checksum in page/README.md.
func TestLibraryChecksum(t *testing.T) {
	readme, err := os.ReadFile("page/README.md")
	if err != nil {
		t.Fatal(err)
	}
	content, err := files.ReadFile("page/echarts.common.min.js")
	if err != nil {
		t.Fatal(err)
	}
	if sum := sha256.Sum256(content); !strings.Contains(string(readme), "`"+hex.EncodeToString(sum[:])+"`") {
		t.Errorf("got checksum %x, want the one in page/README.md", sum)
	}
}

// sample and hostile return documents that a test may change.
func sample() *Document {
	d := Document(reporttest.Sample())
	return &d
}

func hostile() *Document {
	d := Document(reporttest.Hostile())
	return &d
}

// TestHostileKeysAreShown is repeated in a browser by the end-to-end tests.
func TestHostileKeysAreShown(t *testing.T) {
	for i, k := range reporttest.HostileKeys() {
		if got, want := key(k), reporttest.HostileRendered[i]; got != want {
			t.Errorf("key %d: got %q, want %q", i, got, want)
		}
	}
}

// TestHostileTextStaysText checks the page's source; TestBrowserHostile of the end-to-end tests uses a browser.
func TestHostileTextStaysText(t *testing.T) {
	page := renderPage(t, hostile())
	ours := strings.Replace(page, string(load().Library), "", 1)
	for _, bad := range []string{"<script>window", "<img", "<!--<script", "\u202e", "\x00", "\x1b", "\xff", "\u2028", strings.Repeat("A", 500)} {
		if strings.Contains(ours, bad) {
			t.Errorf("the page contains %q unescaped", bad)
		}
	}
	if n := strings.Count(ours, "</script>"); n != 2 { // of the drawing and of page.js
		t.Errorf("got %d ends of scripts, want 2", n)
	}
	_, data, _ := strings.Cut(ours, `id="drawing">`)
	data, _, _ = strings.Cut(data, "</script>")
	var drawn drawing
	if err := json.Unmarshal([]byte(data), &drawn); err != nil {
		t.Fatalf("the drawing is invalid JSON: %v", err)
	}
}

// TestSectionsWithoutDataAreLeftOut renders empty findings.
func TestSectionsWithoutDataAreLeftOut(t *testing.T) {
	page := renderPage(t, &Document{Findings: &replay.Findings{}})
	for _, id := range []string{"timeline", "top", "refused_requests", "limits", "compare", "sweep", "suggestion", "read"} {
		if strings.Contains(page, `id="s-`+id+`"`) {
			t.Errorf("got section %s without data", id)
		}
		if !strings.Contains(renderPage(t, sample()), `id="s-`+id+`"`) {
			t.Errorf("got no section %s with data", id)
		}
	}
	if !strings.Contains(page, "There were no requests to decide.") {
		t.Error("the page does not say that there were no requests")
	}
}

// TestInterruptedWarning looks for the warning in the page and the text.
func TestInterruptedWarning(t *testing.T) {
	d := sample()
	if strings.Contains(renderPage(t, d), interruptedWords) {
		t.Error("the page warns without a reason")
	}
	d.Findings.Interrupted = true
	if !strings.Contains(renderPage(t, d), interruptedWords) {
		t.Error("the page does not warn")
	}
	if text := textOf(t, d); !strings.HasPrefix(text, "! "+interruptedWords) {
		t.Error("the text does not begin with the warning")
	}
}

// TestBestAndWorst compares the marks of the columns with expected ones.
func TestBestAndWorst(t *testing.T) {
	outcome := func(name string, highest, admitted, refused, bytes int64) replay.Outcome {
		return replay.Outcome{Name: name, Limits: []replay.LimitOutcome{{
			Limit: "100/1m " + name, Quota: 100, Window: 60e6, Highest: replay.Highest{Units: highest},
			WrongAdmitted: admitted, WrongRefused: refused, StateBytes: bytes,
		}}}
	}
	rows := compareSection(&replay.Findings{
		Outcome: outcome("sliding-window", 150, 0, 0, 0),
		Compare: []replay.Outcome{
			outcome("sliding-window", 150, 7, 5, 24), outcome("sliding-log", 100, 0, 5, 800), outcome("sliding-window overlap=whole", 60, 0, 5, 24),
			outcome("fixed-window", 199, 9, 5, 16),
		},
	}).Tables[0].Rows
	const plain mark = ""
	want := [][4]mark{
		{plain, plain, plain, plain},
		{best, best, plain, worst}, // 100 of 100 is as good as 60 of 100, and if all values are equal none is best
		{best, best, plain, plain},
		{worst, worst, plain, best},
	}
	for i, r := range rows {
		c := r.Cells
		if got := [4]mark{c[3].Mark, c[4].Mark, c[5].Mark, c[6].Mark}; got != want[i] {
			t.Errorf("%s: got marks %q, want %q", r.Name.Text, got, want[i])
		}
		if chosen := len(r.Tags) > 0; chosen != (i == 0) {
			t.Errorf("%s: got chosen %v", r.Name.Text, chosen)
		}
	}
}
