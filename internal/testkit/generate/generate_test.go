package generate

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"math"
	"strings"
	"testing"
	"time"
)

// read returns all requests of the traffic.
func read(t *testing.T, o Options) (all []request) {
	t.Helper()
	made, err := o.traffic()
	if err != nil {
		t.Fatal(err)
	}
	for q, ok := made.next(); ok; q, ok = made.next() {
		all = append(all, q)
	}
	return all
}

func TestTrafficIsCompleteAndInOrder(t *testing.T) {
	for _, shape := range Shapes {
		for _, o := range []Options{{}, {Requests: 1}, {Requests: 7, Keys: 1}, {Requests: 20_000, Keys: 50, Span: 30 * time.Second}, {Requests: 5_000, Seed: 9, Span: 400 * 24 * time.Hour}} {
			o.Shape = shape
			all := read(t, o)
			span := o.Span
			if span == 0 {
				span = time.Hour
			}
			if want := max(o.Requests, 1); int64(len(all)) != want && (o.Requests != 0 || len(all) != 100_000) {
				t.Fatalf("%+v: got %d requests, want %d", o, len(all), want)
			}
			last := start
			for i, q := range all {
				if q.at < last || q.at >= start+span.Microseconds() {
					t.Fatalf("%+v: got request %d at %v, want it after %v and within the span", o, i, time.UnixMicro(q.at), time.UnixMicro(last))
				}
				last = q.at
			}
		}
	}
}

func TestSeedDeterminesTraffic(t *testing.T) {
	text := func(seed uint64) string {
		var b bytes.Buffer
		if err := Combined(&b, Options{Seed: seed, Requests: 1_000}); err != nil {
			t.Fatal(err)
		}
		return b.String()
	}
	first := text(1)
	if first != text(1) || first != text(0) {
		t.Error("the same seed generates different traffic")
	}
	if first == text(2) {
		t.Error("another seed generates the same traffic")
	}
}

// TestShapes checks what the shapes are for.
func TestShapes(t *testing.T) {
	counts := func(shape string) (byKey map[string]int, byKind map[kind]int) {
		byKey, byKind = map[string]int{}, map[kind]int{}
		for _, q := range read(t, Options{Shape: shape}) {
			byKey[q.key()]++
			byKind[q.kind]++
		}
		return byKey, byKind
	}
	steady, _ := counts("steady")
	if len(steady) != 1_000 || steady["user-0001"] < 50 || steady["user-0001"] > 200 {
		t.Errorf("steady: got %d keys and %d requests of the first, want 1000 and about 100", len(steady), steady["user-0001"])
	}
	zipf, _ := counts("zipf")
	if ratio := float64(zipf["user-0001"]) / float64(zipf["user-0016"]); ratio < 16 || ratio > 32 { // 16^(9/8) is 22.6
		t.Errorf("zipf: the first user has %.1f times the requests of the sixteenth, want about 22.6", ratio)
	}
	mixed, kinds := counts("mixed")
	if kinds[scraper] != 15_000 || kinds[bot] != 10_000 || kinds[edge] != 5_000 || kinds[user] != 70_000 {
		t.Errorf("mixed: got %v, want 15000, 10000 and 5000 requests of scraper, bots and edge bursters, and 70000 of users", kinds)
	}
	if mixed["bot-0001"] != 5 || mixed["bot-2000"] != 5 {
		t.Errorf("mixed: got %d and %d requests of two bots, want 5 each", mixed["bot-0001"], mixed["bot-2000"])
	}
}

// TestBurstsStraddleFullMinutes checks that one key sends about 120 requests around a full minute, some before and some
// after it, and nothing far from one.
func TestBurstsStraddleFullMinutes(t *testing.T) {
	const minute = micros(60e6)
	before, after := 0, 0
	for _, q := range read(t, Options{}) {
		if q.kind != edge {
			continue
		}
		distance := (q.at+minute/2)%minute - minute/2
		if distance < -minute/25 || distance > minute/25 {
			t.Fatalf("got a burst %d µs from a full minute", distance)
		}
		if q.number != 1 || q.at > start+10*minute {
			continue
		}
		if distance < 0 {
			before++
		} else {
			after++
		}
	}
	if before < 40 || after < 40 || before+after > 140 {
		t.Errorf("got %d requests before and %d after the first burst's minute, want about 60 each", before, after)
	}
}

func TestLinesHaveRequests(t *testing.T) {
	o := Options{Requests: 20_000}
	want := read(t, o)
	var log bytes.Buffer
	if err := Lines(&log, o); err != nil {
		t.Fatal(err)
	}
	i := 0
	for text := range strings.Lines(log.String()) {
		var line struct {
			T    float64
			Key  string
			Cost int64
		}
		if err := json.Unmarshal([]byte(text), &line); err != nil || i == len(want) {
			t.Fatalf("line %d: got %q, %v; want %d lines of JSON", i, text, err, len(want))
		}
		if q := want[i]; q.key() != line.Key || q.at != int64(math.Round(line.T*1000)) || line.Cost != 1 {
			t.Fatalf("line %d: got %q, want the request %+v", i, text, q)
		}
		i++
	}
	if i != len(want) {
		t.Errorf("got %d lines, want %d", i, len(want))
	}
}

// TestAddressesBelongToKeys checks that an access log has the requests, each key with an address of its own, and users with their names.
func TestAddressesBelongToKeys(t *testing.T) {
	o := Options{Requests: 20_000, Keys: 400}
	want := read(t, o)
	var log bytes.Buffer
	if err := Combined(&log, o); err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(strings.TrimSuffix(log.String(), "\n"), "\n")
	if len(lines) != len(want) {
		t.Fatalf("got %d lines, want %d", len(lines), len(want))
	}
	owners := map[string]string{}
	for i, line := range lines {
		q, words := want[i], strings.Fields(line)
		name, at := q.key(), time.UnixMicro(q.at).UTC().Format("[02/Jan/2006:15:04:05")
		if q.kind == bot || q.kind == scraper {
			name = "-"
		}
		if words[2] != name || words[3] != at {
			t.Fatalf("line %d: got %s, want the name %s and the time %s", i, line, name, at)
		}
		if owner, ok := owners[words[0]]; ok && owner != q.key() {
			t.Fatalf("%s belongs to %s and %s", words[0], owner, q.key())
		}
		owners[words[0]] = q.key()
	}
	if len(owners) < 400 {
		t.Errorf("got %d addresses, want one for each key", len(owners))
	}
}

func TestErrors(t *testing.T) {
	for _, o := range []Options{{Shape: "zip"}, {Requests: -1}, {Keys: -1}, {Span: time.Millisecond}} {
		if err := Lines(io.Discard, o); err == nil {
			t.Errorf("%+v: got no error", o)
		}
	}
	cause := errors.New("the disk is full")
	broken, pipe := io.Pipe()
	broken.CloseWithError(cause)
	if err := Lines(pipe, Options{}); !errors.Is(err, cause) {
		t.Errorf("got %v, want the error of the writer", err)
	}
}
