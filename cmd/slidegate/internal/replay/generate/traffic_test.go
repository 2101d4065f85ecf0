package generate

import (
	"io"
	"regexp"
	"strconv"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/slidegate/slidegate/cmd/slidegate/internal/replay/traffic"
	"github.com/slidegate/slidegate/rule"
)

// tb is the part of a test that the checks need, implemented by *testing.T and *rapid.T.
type tb interface {
	Helper()
	Fatalf(format string, args ...any)
}

func start(t tb, o Options) *Traffic {
	t.Helper()
	traffic, err := New(o)
	if err != nil {
		t.Fatalf("%+v: got error %v, want none", o, err)
	}
	return traffic
}

// request is a copy of a traffic.Line.
type request struct {
	at   rule.Micros
	key  string
	cost int64
}

// readAll reads the traffic to its end.
func readAll(t tb, o Options) (list []request) {
	t.Helper()
	made := start(t, o)
	var line traffic.Line
	for {
		err := made.Next(&line)
		if err == io.EOF {
			return list
		}
		if err != nil {
			t.Fatalf("%+v: the traffic ends with %v, want io.EOF", o, err)
		}
		list = append(list, request{line.At, string(line.Key), line.Cost})
	}
}

var keyPattern = regexp.MustCompile(`^(user-\d{4,}|bot-\d{5,}|edge-\d{2,}|scraper-1)$`)

// checkAll checks the properties of all traffic: the number of requests, their order, bounds, costs and keys.
func checkAll(t tb, o Options) {
	t.Helper()
	list := readAll(t, o)
	o = start(t, o).Options()
	if int64(len(list)) != o.Requests {
		t.Fatalf("%+v: %d requests", o, len(list))
	}
	last := rule.Micros(o.From.UnixMicro())
	end := last + rule.Micros(o.Span.Microseconds())
	most := map[string]int{"user": o.Keys, "bot": o.Bots, "edge": o.Keys, "scraper": 1}
	for i, r := range list {
		if r.at < last || r.at >= end {
			t.Fatalf("%+v: request %d is at %d, after one at %d, and the end is %d", o, i, r.at, last, end)
		}
		if r.cost < 1 || r.cost > o.MaxCost {
			t.Fatalf("%+v: request %d costs %d", o, i, r.cost)
		}
		if !keyPattern.MatchString(r.key) {
			t.Fatalf("%+v: request %d has the key %q", o, i, r.key)
		}
		kind, number := split(t, r.key)
		if number < 1 || number > most[kind] {
			t.Fatalf("%+v: request %d has the key %q of %d", o, i, r.key, most[kind])
		}
		last = r.at
	}
}

// split splits a key: "user-0001" is user 1.
func split(t tb, key string) (kind string, number int) {
	t.Helper()
	for i := range key {
		if key[i] == '-' {
			number, err := strconv.Atoi(key[i+1:])
			if err != nil {
				t.Fatalf("the key %q: %v", key, err)
			}
			return key[:i], number
		}
	}
	t.Fatalf("the key %q has no number", key)
	return "", 0
}

func TestCountOrderBounds(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		o := Options{
			Shape:    rapid.SampledFrom(Shapes()).Draw(t, "shape"),
			Seed:     rapid.Uint64().Draw(t, "seed"),
			Requests: rapid.Int64Range(1, 3_000).Draw(t, "requests"),
			Keys:     rapid.IntRange(1, 20_000).Draw(t, "keys"),
			Bots:     rapid.IntRange(0, 200_000).Draw(t, "bots"),
			From:     time.UnixMicro(rapid.Int64Range(0, 4e15).Draw(t, "from")),
			Span:     time.Duration(rapid.Int64Range(2e6, 1e13).Draw(t, "span")) * time.Microsecond,
			MaxCost:  rapid.Int64Range(1, 1_000).Draw(t, "max cost"),
		}
		longest := min(o.Span.Microseconds()-1, int64(rule.MaxWindow)) // then there is a boundary in the span
		o.Window = time.Duration(rapid.Int64Range(1_000, longest).Draw(t, "window")) * time.Microsecond
		checkAll(t, o)
	})
}

func TestSameSeedSameTraffic(t *testing.T) {
	for _, s := range Shapes() {
		o := Options{Shape: s, Requests: 1_000, Span: time.Hour, MaxCost: 10}
		zero := readAll(t, o)
		o.Seed = 1
		one := readAll(t, o)
		o.Seed = 2
		two := readAll(t, o)
		same := 0
		for i := range zero {
			if zero[i] != one[i] {
				t.Fatalf("%v: request %d is %v with the default seed and %v with 1", s, i, zero[i], one[i])
			}
			if one[i] == two[i] {
				same++
			}
		}
		if same > 10 {
			t.Errorf("%v: %d of 1000 requests are the same with another seed", s, same)
		}
	}
}

func TestEndStaysTheEnd(t *testing.T) {
	made := start(t, Options{Requests: 1})
	var line traffic.Line
	for i, want := range []error{nil, io.EOF, io.EOF} {
		if err := made.Next(&line); err != want {
			t.Fatalf("call %d returned %v, want %v", i+1, err, want)
		}
	}
	if err := new(Traffic).Next(&line); err != io.EOF {
		t.Errorf("the zero value returned %v, want io.EOF", err)
	}
}

func TestNextDoesNotAllocate(t *testing.T) {
	for _, s := range Shapes() {
		made := start(t, Options{Shape: s, Requests: 1_000_000, MaxCost: 9})
		var line traffic.Line
		if n := testing.AllocsPerRun(1_000, func() { _ = made.Next(&line) }); n != 0 {
			t.Errorf("%v: got %v allocations per request", s, n)
		}
	}
}

func TestTimeAsJSON(t *testing.T) {
	for _, c := range []struct {
		at   rule.Micros
		want string
	}{
		{0, "0"}, {1, "0.001"}, {10, "0.01"}, {100, "0.1"}, {999, "0.999"}, {1_000, "1"}, {1_050, "1.05"},
		{1_767_571_200_123_000, "1767571200123"},
		{1_767_571_200_123_400, "1767571200123.4"},
		{1_767_571_200_120_456, "1767571200120.456"},
	} {
		if got := string(appendMillis(nil, c.at)); got != c.want {
			t.Errorf("%d is written as %s, want %s", c.at, got, c.want)
		}
	}
}

// The two forms of the time in a line must be equal.
func TestTimeIsAt(t *testing.T) {
	made := start(t, Options{Requests: 1_000})
	var line traffic.Line
	for made.Next(&line) == nil {
		millis, err := strconv.ParseFloat(string(line.Time), 64)
		if err != nil || rule.Micros(millis*1_000+0.5) != line.At {
			t.Fatalf("%d is written as %s: %v", line.At, line.Time, err)
		}
	}
}

func TestCostsAreMostlySmall(t *testing.T) {
	below, above, most := 0, 0, int64(0)
	for _, r := range readAll(t, Options{Shape: Steady, MaxCost: 1_000}) {
		if r.cost <= 100 {
			below++
		}
		if r.cost > 500 {
			above++
		}
		most = max(most, r.cost)
	}
	// Three uniform shares multiply to x or less with a probability of x(1 + l + l²/2), where l is -ln x.
	if below < 58_500 || below > 60_500 { // 59.5 %
		t.Errorf("%d of 100,000 costs are at most a tenth of the largest, want about 59,500", below)
	}
	if above < 3_000 || above > 3_600 { // 1 - 0.967 = 3.3 %
		t.Errorf("%d of 100,000 costs are above half of the largest, want about 3,300", above)
	}
	if most < 900 {
		t.Errorf("the largest cost is %d of 1,000", most)
	}
}
