package generate

import (
	"bytes"
	"context"
	"errors"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/slidegate/slidegate/cmd/slidegate/internal/replay/traffic"
	"github.com/slidegate/slidegate/internal/fields"
	"github.com/slidegate/slidegate/internal/options"
	"github.com/slidegate/slidegate/rule"
)

// read returns all requests of the traffic, with copies of their keys.
func read(t *testing.T, lines traffic.Lines) (all []traffic.Line) {
	t.Helper()
	for {
		var line traffic.Line
		err := lines.Next(&line)
		if err == io.EOF {
			return all
		}
		if err != nil {
			t.Fatal(err)
		}
		line.Key, line.Time = bytes.Clone(line.Key), bytes.Clone(line.Time)
		all = append(all, line)
	}
}

func made(t *testing.T, o Options) *Traffic {
	t.Helper()
	generated, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	return generated
}

func TestTrafficIsCompleteAndInOrder(t *testing.T) {
	for _, shape := range ShapeNames() {
		for _, o := range []Options{{}, {Requests: 1}, {Requests: 7, Keys: 1}, {Requests: 20_000, Keys: 50, Span: 30 * time.Second}, {Requests: 5_000, Seed: 9, Span: 400 * 24 * time.Hour}} {
			o.Shape = shape
			all := read(t, made(t, o))
			span := o.Span
			if span == 0 {
				span = time.Hour
			}
			if want := max(o.Requests, 1); int64(len(all)) != want && (o.Requests != 0 || len(all) != 100_000) {
				t.Fatalf("%+v: got %d requests, want %d", o, len(all), want)
			}
			last := start
			for i, line := range all {
				if line.At < last || line.At >= start+rule.Micros(span.Microseconds()) {
					t.Fatalf("%+v: got request %d at %v, want it after %v and within the span", o, i, line.At.Time(), last.Time())
				}
				last = line.At
			}
		}
	}
}

func TestSeedDeterminesTraffic(t *testing.T) {
	text := func(seed uint64) string {
		var b bytes.Buffer
		if err := WriteCombined(context.Background(), &b, made(t, Options{Seed: seed, Requests: 1_000})); err != nil {
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
	counts := func(shape string) (byKey map[string]int, byKind map[string]int) {
		byKey, byKind = map[string]int{}, map[string]int{}
		for _, line := range read(t, made(t, Options{Shape: shape})) {
			kind, _, _ := strings.Cut(string(line.Key), "-")
			byKey[string(line.Key)]++
			byKind[kind]++
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
	if kinds["scraper"] != 15_000 || kinds["bot"] != 10_000 || kinds["edge"] != 5_000 || kinds["user"] != 70_000 {
		t.Errorf("mixed: got %v, want 15000, 10000 and 5000 requests of scraper, bots and edge bursters, and 70000 of users", kinds)
	}
	if mixed["bot-0001"] != 5 || mixed["bot-2000"] != 5 {
		t.Errorf("mixed: got %d and %d requests of two bots, want 5 each", mixed["bot-0001"], mixed["bot-2000"])
	}
}

// TestBurstsStraddleFullMinutes checks that one key sends about 120 requests around a full minute, some before and some
// after it, and nothing far from one.
func TestBurstsStraddleFullMinutes(t *testing.T) {
	const minute = rule.Micros(60e6)
	before, after := 0, 0
	for _, line := range read(t, made(t, Options{})) {
		if !bytes.HasPrefix(line.Key, []byte("edge-")) {
			continue
		}
		distance := (line.At+minute/2)%minute - minute/2
		if distance < -minute/25 || distance > minute/25 {
			t.Fatalf("got a burst %v from a full minute", distance.Duration())
		}
		if string(line.Key) != "edge-0001" || line.At > start+10*minute {
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

// TestLogsCanBeRead checks that the logs have the requests, the users and one address for each key.
func TestLogsCanBeRead(t *testing.T) {
	o := Options{Requests: 20_000, Keys: 400}
	want := read(t, made(t, o))
	var lines, combined bytes.Buffer
	if err := errors.Join(WriteLines(context.Background(), &lines, made(t, o)), WriteCombined(context.Background(), &combined, made(t, o))); err != nil {
		t.Fatal(err)
	}
	reader, err := traffic.NewReader("lines", &lines, traffic.Options{})
	if err != nil {
		t.Fatal(err)
	}
	for i, line := range read(t, reader) {
		if line.At != want[i].At || !bytes.Equal(line.Key, want[i].Key) || line.Cost != 1 {
			t.Fatalf("line %d: got %s at %d, want %s at %d", i, line.Key, line.At, want[i].Key, want[i].At)
		}
	}
	key, err := fields.ParseTemplate("{address} {user}")
	if err != nil {
		t.Fatal(err)
	}
	if reader, err = traffic.NewReader("combined", &combined, traffic.Options{Key: key, Format: "combined"}); err != nil {
		t.Fatal(err)
	}
	owners := map[string]string{}
	for i, line := range read(t, reader) {
		if line.At != want[i].At/1e6*1e6 {
			t.Fatalf("line %d: got the time %d, want the second of %d", i, line.At, want[i].At)
		}
		address, _, _ := strings.Cut(string(line.Key), " ")
		if owner, ok := owners[address]; ok && owner != string(want[i].Key) {
			t.Fatalf("%s belongs to %s and %s", address, owner, want[i].Key)
		}
		owners[address] = string(want[i].Key)
	}
	if s := reader.Source(); s.Requests != o.Requests || s.Unreadable != 0 || len(owners) < 400 {
		t.Errorf("got %+v and %d addresses, want all lines and an address for each key", s, len(owners))
	}
}

func TestOptionsAreChecked(t *testing.T) {
	for option, o := range map[string]Options{
		"Shape": {Shape: "zip"}, "Requests": {Requests: -1}, "Keys": {Keys: -1}, "Span": {Span: time.Millisecond},
	} {
		_, err := New(o)
		var wrong *options.Error
		if !errors.As(err, &wrong) || wrong.Option != option {
			t.Errorf("%+v: got %v, want an error about %s", o, err, option)
		}
	}
}

// TestWritingStops checks that an interrupted write ends after a whole line, and that an error of the writer is returned.
func TestWritingStops(t *testing.T) {
	ctx, cancel := context.WithCancelCause(context.Background())
	cause := errors.New("interrupted")
	cancel(cause)
	var b bytes.Buffer
	if err := WriteLines(ctx, &b, made(t, Options{})); !errors.Is(err, cause) || !bytes.HasSuffix(b.Bytes(), []byte("}\n")) {
		t.Errorf("got %v after %q, want the cause after a whole line", err, b.Bytes())
	}
	broken, pipe := io.Pipe()
	broken.CloseWithError(cause)
	if err := WriteLines(context.Background(), pipe, made(t, Options{})); !errors.Is(err, cause) {
		t.Errorf("got %v, want the error of the writer", err)
	}
}
