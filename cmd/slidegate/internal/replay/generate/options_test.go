package generate

import (
	"strings"
	"testing"
	"time"
)

func TestDefaults(t *testing.T) {
	monday := time.Date(2026, 1, 5, 0, 0, 0, 0, time.UTC)
	if monday.Weekday() != time.Monday {
		t.Fatal("the default is documented to be a Monday")
	}
	for _, s := range Shapes() {
		want := Options{
			Shape: s, Seed: 1, Requests: 100_000, Keys: 1_000, From: monday, Span: time.Hour, Window: time.Minute, MaxCost: 1,
		}
		switch s {
		case Diurnal:
			want.Span = 7 * 24 * time.Hour
		case Botnet:
			want.Bots = 14_000 // 70 % of the requests, 5 each
		case Mixed:
			want.Bots = 2_000 // 10 %
		}
		if got := start(t, Options{Shape: s}).Options(); got != want {
			t.Errorf("%v: the defaults are %+v, want %+v", s, got, want)
		}
	}
}

func TestGivenOptionsAreKept(t *testing.T) {
	o := Options{
		Shape: Botnet, Seed: 2, Requests: 3, Keys: 4, Bots: 5, From: time.Unix(6, 7_000), Span: 8 * time.Second,
		Window: 9 * time.Second, MaxCost: 10,
	}
	if got := start(t, o).Options(); got != o {
		t.Errorf("%+v: got %+v, want no change", o, got)
	}
}

func TestBadOptions(t *testing.T) {
	for _, c := range []struct {
		o    Options
		want []string // the field first, then what the fix must name
	}{
		{Options{Shape: 7}, []string{"Shape: ", "mixed, steady", "unknown(7)"}},
		{Options{Requests: -1}, []string{"Requests: ", "1 to 100000000000"}},
		{Options{Requests: maxRequests + 1}, []string{"Requests: ", "100000000001"}},
		{Options{Keys: -1}, []string{"Keys: ", "1 to 1000000000"}},
		{Options{Keys: maxKeys + 1}, []string{"Keys: ", "1000000001"}},
		{Options{Bots: -1}, []string{"Bots: ", "1 to 1000000000"}},
		{Options{Bots: maxKeys + 1}, []string{"Bots: ", "1000000001"}},
		{Options{MaxCost: -1}, []string{"MaxCost: ", "1 to 1000000,"}},
		{Options{MaxCost: maxCost + 1}, []string{"MaxCost: ", "1000001"}},
		{Options{Span: -time.Hour}, []string{"Span: ", "1s to 87840h0m0s", "-1h0m0s"}},
		{Options{Span: time.Second - 1}, []string{"Span: ", "1s to"}},
		{Options{Span: maxSpan + 1}, []string{"Span: ", "87840h0m0s"}},
		{Options{Span: time.Hour + 1}, []string{"Span: ", "microseconds", "round it"}},
		{Options{From: time.Unix(-1, 0)}, []string{"From: ", "1970-01-01", "last 1h0m0s"}},
		{Options{From: time.Date(2245, 12, 31, 0, 0, 0, 0, time.UTC)}, []string{"From: ", "2245-"}},
		{Options{From: time.Unix(1, 1)}, []string{"From: ", "microseconds", "round it"}},
		{Options{Window: -1}, []string{"Window: ", "1ms to"}},
		{Options{Window: time.Millisecond - 1}, []string{"Window: ", "1ms to"}},
		{Options{Window: time.Second + 1}, []string{"Window: ", "microseconds", "round it"}},
		{Options{Window: 50_000 * time.Hour}, []string{"Window: ", "43920h0m0s"}},
		{Options{Shape: Edges, Window: time.Hour}, []string{"Window: ", "no boundary", "shorter than 1h0m0s"}},
		{Options{Shape: Mixed, Span: time.Minute}, []string{"Window: ", "no boundary", "shorter than 1m0s", "span longer"}},
	} {
		traffic, err := New(c.o)
		if err == nil || traffic != nil {
			t.Errorf("%+v: got no error", c.o)
			continue
		}
		if !strings.HasPrefix(err.Error(), "generate: "+c.want[0]) {
			t.Errorf("%+v: the error %q does not name the field %q", c.o, err, c.want[0])
		}
		for _, part := range c.want {
			if !strings.Contains(err.Error(), part) {
				t.Errorf("%+v: the error %q does not say %q", c.o, err, part)
			}
		}
	}
}

func TestExtremeOptions(t *testing.T) {
	for _, o := range []Options{
		{Requests: 1},
		{Requests: 99, Keys: 1},
		{Keys: maxKeys, Bots: maxKeys, MaxCost: maxCost, Requests: 1_000},
		{From: time.Unix(0, 0), Span: minSpan, Window: time.Millisecond, Requests: 1_000},
		{Span: maxSpan, Window: time.Millisecond, Requests: 1_000},
		{From: time.Unix(0, 0), Span: maxSpan, Window: 43_920 * time.Hour, Requests: 1_000},
		{Span: time.Minute + time.Microsecond, Requests: 1_000}, // the only boundary is the last microsecond
	} {
		for _, o.Shape = range Shapes() {
			checkAll(t, o)
		}
	}
}
