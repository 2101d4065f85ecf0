package main

import (
	"bytes"
	"compress/gzip"
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/slidegate/slidegate/internal/testkit/generate"
)

// Errors have a clear message and exit status 2, and leave no files behind.

// log is a valid log of three lines.
const log = `{"t":1767600000000,"key":"a","cost":1}
{"t":1767600000001,"key":"a","cost":1}
{"t":1767600000002,"key":"b","cost":1}
`

func TestInvalidInput(t *testing.T) {
	good := write(t, "good.jsonl", []byte(log))
	for _, test := range []struct {
		name string
		args []string
		want []string // parts of the message
	}{
		{"flag", []string{"replay", "--limt", "100/1m", good}, []string{"--limt", "--limit", "slidegate replay --help"}},
		{"command", []string{"repaly"}, []string{"repaly", "replay"}},
		{"nothing to replay", []string{"replay"}, []string{"name a log"}},
		{"empty file", []string{"replay", write(t, "empty.log", nil)}, []string{"empty.log", "empty"}},
		{"binary file", []string{"replay", write(t, "a.bin", bytes.Repeat([]byte{0, 1, 2, 0xff, '\n'}, 100))}, []string{"a.bin", "binary"}},
		{"no log at all", []string{"replay", write(t, "poem.txt", []byte("roses are red\nviolets are blue\n"))}, []string{"poem.txt", "roses are red", "--log"}},
		{"folder", []string{"replay", t.TempDir()}, []string{"directory"}},
		{"missing file", []string{"replay", "no-such.log"}, []string{"no-such.log"}},
		{"truncated gzip", []string{"replay", write(t, "cut.gz", truncatedLog(t))}, []string{"cut.gz", "truncated"}},
		{"empty gzip", []string{"replay", write(t, "none.gz", zip(t, ""))}, []string{"none.gz", "empty"}},
		{"limit", []string{"replay", "--limit", "100", good}, []string{"--limit", "100/1m"}},
		{"invalid limit", []string{"replay", "--limit", "20000/1m sliding-log", good}, []string{"10000", "whole"}},
		{"algorithm", []string{"replay", "--limit", "60/1m sliding", good}, []string{"--limit", "sliding-window"}},
		{"same limit twice", []string{"replay", "--limit", "5/1m", "--limit", "5/1m", good}, []string{"duplicate"}},
		{"format", []string{"replay", "--log", "combned", good}, []string{"combned", "combined"}},
		{"key", []string{"replay", "--key", "adress", good}, []string{"--key", "address"}},
		{"cost", []string{"replay", "--cost", "lots", good}, []string{"--cost", "lots"}},
		{"sweep", []string{"replay", "--sweep", "1000..10", good}, []string{"sweep", "smaller quota must come first"}},
		{"suggest", []string{"replay", "--suggest", "few", good}, []string{"--suggest", "few", "1%"}},
		{"suggest beyond", []string{"replay", "--suggest", "101%", good}, []string{"suggest", "0 to 100"}},
		{"output", []string{"replay", "--format", "xml", good}, []string{"--format", "text"}},
		{"page in a missing folder", []string{"replay", "--html", filepath.Join("no", "such", "page.html"), good}, []string{"--html", "page.html"}},
		{"decisions over the log", []string{"replay", "--decisions", good, good}, []string{"overwritten"}},
		{"policy without a file", []string{"replay", "--policy", "api", good}, []string{"--config"}},
		{"file and limit", []string{"replay", "--config", "x.yaml", "--limit", "1/1s", good}, []string{"--config", "--limit"}},
		{"missing config", []string{"replay", "--config", "x.yaml", good}, []string{"x.yaml"}},
		{"status of a log without", []string{"replay", "--status", "2xx", good}, []string{"status"}},
		{"standard input twice", []string{"replay", "-", "-"}, []string{"standard input", "twice"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			r := callWith(t.Context(), strings.NewReader(log), test.args...)
			if r.status != exitFailure {
				t.Errorf("got status %d, want %d", r.status, exitFailure)
			}
			for _, want := range test.want {
				if !strings.Contains(r.err, want) {
					t.Errorf("%q is missing in the message:\n%s", want, r.err)
				}
			}
			if !strings.HasPrefix(r.err, "slidegate: ") || strings.Count(r.err, "\n") > 6 {
				t.Errorf("got a long message:\n%s", r.err)
			}
		})
	}
	if text, err := os.ReadFile(good); err != nil || string(text) != log {
		t.Errorf("the log was changed: %q, %v", text, err)
	}
}

// A truncated log is reported as far as it goes, but the exit status is that of an error.
func TestTruncatedLogIsReported(t *testing.T) {
	r := call(t, "replay", "--limit", "1/1m", write(t, "cut.gz", truncatedLog(t)))
	if r.status != exitFailure || !strings.Contains(r.out, "What 1/1m would have done") {
		t.Errorf("got status %d and\n%swant a failure with a report", r.status, r.out)
	}
}

func TestUnreadableLinesAreShown(t *testing.T) {
	text := strings.Replace(log, `{"t":1767600000001`, `{"t":"yesterday"`, 1)
	r := call(t, "replay", write(t, "part.jsonl", []byte(text)))
	if r.status != exitOK {
		t.Fatalf("got status %d, %s, want %d", r.status, r.err, exitOK)
	}
	for _, want := range []string{"unreadable", "yesterday", "2"} {
		if !strings.Contains(r.out, want) {
			t.Errorf("%q is missing in the report:\n%s", want, r.out)
		}
	}
}

// If the page cannot be written, a new file is removed and an old one is left unchanged.
func TestFailureLeavesOldPageUnchanged(t *testing.T) {
	fresh := filepath.Join(t.TempDir(), "page.html")
	old := write(t, "old.html", []byte("an older report"))
	for _, page := range []string{fresh, old} {
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if r := callWith(ctx, strings.NewReader(""), "replay", "--html", page, "-"); r.status == exitOK {
			t.Errorf("got status %d for an empty standard input, want an error", r.status)
		}
	}
	if _, err := os.Stat(fresh); !os.IsNotExist(err) {
		t.Errorf("a page was left behind: %v", err)
	}
	if text, _ := os.ReadFile(old); string(text) != "an older report" {
		t.Errorf("got %q in the old page, want it unchanged", text)
	}
}

// truncatedLog returns the first half of a gzipped log.
func truncatedLog(t *testing.T) []byte {
	all := zip(t, made(t, generate.Options{Shape: "steady", Requests: 5_000}))
	return all[:len(all)/2]
}

func zip(t *testing.T, text string) []byte {
	t.Helper()
	var packed bytes.Buffer
	w := gzip.NewWriter(&packed)
	if _, err := w.Write([]byte(text)); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return packed.Bytes()
}
