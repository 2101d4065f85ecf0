package traffic

import (
	"bytes"
	"encoding/json"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/slidegate/slidegate/rule"
)

// FuzzRead reads any input in every format, with a key of all possible fields: nothing may panic, and all results must be
// in range.
func FuzzRead(f *testing.F) {
	seedWithSamples(f, func(text []byte) {
		f.Add(text)
		f.Add(gzipped(text))
		f.Add(zstded(text))
	})
	filter, err := ParseFilter([]string{"!TRACE"}, []string{"!/none/*"}, []string{"!999"})
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		readAnything(t, text, Options{})
		for _, format := range FormatNames() {
			opts := allFieldsOptions(t, format)
			if opts.Format != "lines" {
				opts.Filter = filter
			}
			readAnything(t, text, opts)
		}
	})
}

// seedWithSamples calls add with each line of the samples.
func seedWithSamples(f *testing.F, add func(line []byte)) {
	files, err := filepath.Glob("testdata/*.*")
	if err != nil || len(files) < 10 {
		f.Fatalf("got samples %v, %v", files, err)
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			f.Fatal(err)
		}
		for line := range bytes.Lines(text) {
			add(line)
		}
	}
}

// allFieldsOptions returns options for a format with a key of all its fields.
func allFieldsOptions(t testing.TB, format string) Options {
	opts := Options{Format: format, Key: template(t, "{address} {user} {method} {path} {query} {status}")}
	switch format {
	case "combined":
		opts.Key = template(t, "{header:Referer} {header:User-Agent} {address}")
		opts.Cost = costOf(t, "bytes")
	case "caddy", "traefik":
		opts.Key = template(t, "{address} {user} {path} {header:X-Api-Key} {field:request.headers.0}")
		opts.Cost = costOf(t, "bytes")
	case "haproxy":
		opts.Key = template(t, "{address} {method} {path} {query} {status}")
		opts.Cost = costOf(t, "bytes")
	case "alb", "cloudfront":
		opts.Key = template(t, "{address} {method} {host} {path} {query} {status} {header:User-Agent}")
		opts.Cost = costOf(t, "bytes")
	case "envoy":
		opts.Key = template(t, "{address} {path} {header:X-Request-Id}")
	case "lines":
		opts.Key = template(t, "{key} {field:a.b}")
	case "json":
		opts.Fields = map[string]string{"time": "t", "address": "a.0", "path": "p", "method": "m", "user": "u", "status": "s"}
	}
	return opts
}

// FuzzParse passes single lines to the parsers of all formats, which is faster than FuzzRead.
func FuzzParse(f *testing.F) {
	seedWithSamples(f, func(text []byte) { f.Add(bytes.TrimRight(text, "\n")) })
	var readers []*Reader
	for _, format := range FormatNames() {
		reader, err := NewReader("fuzz", strings.NewReader("x"), allFieldsOptions(f, format))
		if err != nil {
			f.Fatal(err)
		}
		readers = append(readers, reader)
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		for _, r := range readers {
			var line Line
			taken, why := r.take(text, &line)
			if taken != (why == "") {
				t.Fatalf("%v: got taken %v and reason %q", r.format, taken, why)
			}
			if taken {
				checkLine(t, r.format, &line)
			}
		}
	})
}

func readAnything(t *testing.T, text []byte, opts Options) {
	r, err := NewReader("fuzz", bytes.NewReader(text), opts)
	if err != nil {
		return
	}
	defer r.Close()
	var line Line
	for err = r.Next(&line); err == nil; err = r.Next(&line) {
		checkLine(t, opts.Format, &line)
	}
	s := r.Source()
	if s.Lines != s.Requests+s.Filtered+s.Unreadable {
		t.Fatalf("%v: %d lines are not %d + %d + %d", opts.Format, s.Lines, s.Requests, s.Filtered, s.Unreadable)
	}
	if err == io.EOF && s.Requests+s.Filtered == 0 {
		t.Fatalf("%v: got no requests and no error", opts.Format)
	}
}

func checkLine(t *testing.T, format string, line *Line) {
	if line.At <= 0 || line.At > rule.MaxNow || line.Cost < 0 || line.Cost > rule.MaxQuota {
		t.Fatalf("%v: time %d and cost %d, want 1 to %d and 0 to %d", format, line.At, line.Cost, rule.MaxNow, rule.MaxQuota)
	}
	if !json.Valid(line.Time) {
		t.Fatalf("%v: the time %q is not JSON", format, line.Time)
	}
}

// In the common case a line takes no allocations.
func TestNoAllocations(t *testing.T) {
	for _, file := range []string{"combined.log", "common.log", "caddy.log", "traefik.log", "envoy.log", "lines.jsonl", "haproxy.log", "alb.log", "cloudfront.log"} {
		text, err := os.ReadFile(filepath.Join("testdata", file))
		if err != nil {
			t.Fatal(err)
		}
		for text[0] == '#' {
			text = text[bytes.IndexByte(text, '\n')+1:]
		}
		first := text[:bytes.IndexByte(text, '\n')+1]
		r, err := NewReader(file, &repeat{text: first, times: 10_000}, Options{})
		if err != nil {
			t.Fatal(err)
		}
		var line Line
		if got := testing.AllocsPerRun(5000, func() { err = r.Next(&line) }); got != 0 || err != nil {
			t.Errorf("%s: got %v allocations per line, %v", file, got, err)
		}
	}
}
