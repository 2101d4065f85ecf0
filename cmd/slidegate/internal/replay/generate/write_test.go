package generate

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"github.com/slidegate/slidegate/rule"
	"io"
	"net/netip"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/slidegate/slidegate/cmd/slidegate/internal/replay/traffic"
)

type writer func(context.Context, io.Writer, *Traffic) error

func written(t *testing.T, w writer, o Options) string {
	t.Helper()
	var b bytes.Buffer
	if err := w(context.Background(), &b, start(t, o)); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

func TestAppendLine(t *testing.T) {
	line := traffic.Line{Key: []byte("bot-04711"), Cost: 12, Time: []byte("1767571200123.456")}
	const want = `{"t":1767571200123.456,"key":"bot-04711","cost":12}` + "\n"
	if got := string(appendLine(nil, &line)); got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

// The output equals the lines that Next returns.
func TestWriteLines(t *testing.T) {
	o := Options{Requests: 5_000, MaxCost: 50}
	lines := strings.Split(strings.TrimSuffix(written(t, WriteLines, o), "\n"), "\n")
	list := readAll(t, o)
	if len(lines) != len(list) {
		t.Fatalf("got %d lines, want %d", len(lines), len(list))
	}
	for i, text := range lines {
		var read struct {
			T    float64 `json:"t"`
			Key  string  `json:"key"`
			Cost int64   `json:"cost"`
		}
		if err := json.Unmarshal([]byte(text), &read); err != nil {
			t.Fatalf("line %d: %v: %s", i+1, err, text)
		}
		if got := (request{rule.Micros(read.T*1_000 + 0.5), read.Key, read.Cost}); got != list[i] {
			t.Fatalf("line %d is %s, want %v", i+1, text, list[i])
		}
	}
}

var combined = regexp.MustCompile(`^(\S+) - (\S+) \[([^\]]+)\] "([A-Z]+) (/\S*) HTTP/1\.1" (\d{3}) (\d+) "([^"]+)" "([^"]+)"$`)

func TestWriteCombined(t *testing.T) {
	o := Options{Requests: 20_000}
	lines := strings.Split(strings.TrimSuffix(written(t, WriteCombined, o), "\n"), "\n")
	list := readAll(t, o)
	if len(lines) != len(list) {
		t.Fatalf("got %d lines, want %d", len(lines), len(list))
	}
	addresses, agents := map[string]string{}, map[string]string{} // withPrefix each key
	count := map[string]int{}
	for i, text := range lines {
		m := combined.FindStringSubmatch(text)
		if m == nil {
			t.Fatalf("line %d is not in the format: %s", i+1, text)
		}
		at, err := time.Parse("02/Jan/2006:15:04:05 -0700", m[3])
		if err != nil || rule.Micros(at.Unix()) != list[i].at/1e6 {
			t.Fatalf("line %d has the date %s for %d: %v", i+1, m[3], list[i].at, err)
		}
		key := list[i].key
		if anonymous := key[0] == 's' || key[0] == 'b'; anonymous && m[2] != "-" || !anonymous && m[2] != key {
			t.Fatalf("line %d of %s: got user %s", i+1, key, m[2])
		}
		if _, err := netip.ParseAddr(m[1]); err != nil {
			t.Fatalf("line %d: %v", i+1, err)
		}
		if last := m[5][len(m[5])-1]; m[6] == "404" && (last < '0' || last > '9') {
			t.Fatalf("line %d: got 404 for an endpoint that always exists: %s", i+1, text)
		}
		checkSame(t, addresses, key, m[1])
		checkSame(t, agents, key, m[9])
		count["status "+m[6]]++
		count["method "+m[4]]++
		count["path "+m[5]]++
		if m[8] != "-" {
			count["referer"]++
		}
	}
	checkMix(t, count)
}

// checkSame fails if a key had a different value before.
func checkSame(t *testing.T, values map[string]string, key, value string) {
	t.Helper()
	if before, known := values[key]; known && before != value {
		t.Fatalf("%s is %s, and was %s before", key, value, before)
	}
	values[key] = value
}

// checkMix checks that 20,000 lines have a believable mix of everything.
func checkMix(t *testing.T, count map[string]int) {
	t.Helper()
	for what, between := range map[string][2]int{
		"status 200":            {14_000, 18_000},
		"status 304":            {1_000, 2_500}, // an eighth of what is read
		"status 404":            {20, 400},      // a fiftieth of what has a number
		"status 401":            {140, 260},     // 1 %
		"status 500":            {60, 140},      // half of that
		"status 201":            {200, 1_000},
		"method GET":            {14_000, 19_000},
		"method POST":           {1_000, 4_000},
		"method DELETE":         {40, 300},
		"path /api/v1/products": {3_200, 4_400}, // 1/(1 + 1/2 + ... + 1/40) = 23 % of what users, some bots and edge keys request
		"referer":               {400, 4_000},
	} {
		if n := count[what]; n < between[0] || n > between[1] {
			t.Errorf("%s: %d of 20,000, want %d to %d", what, n, between[0], between[1])
		}
	}
}

func TestByChanceHasAllEndpoints(t *testing.T) {
	var count [len(endpoints)]int
	for _, place := range endpointByChance {
		count[place]++
	}
	// The harmonic number of 40 is 4.2785: the k-th has 1024 / 4.2785 / k = 239.3 / k places, rounded either way.
	for i, n := range count {
		if want := 239.3 / float64(i+1); float64(n) < want-1 || float64(n) > want+1 {
			t.Errorf("endpoint %d has %d places, want about %.1f", i, n, want)
		}
	}
	if e := endpoints[login]; e.path != "/api/v1/login" {
		t.Errorf("got %s for bots", e.path)
	}
	if e := endpoints[oneProduct]; e.path != "/api/v1/products/" || !e.numbered {
		t.Errorf("got %s for scrapers", e.path)
	}
}

// stopper is a writer that cancels a context after a number of writes.
type stopper struct {
	bytes.Buffer
	writes int
	stop   func()
}

func (s *stopper) Write(p []byte) (int, error) {
	if s.writes--; s.writes == 0 {
		s.stop()
	}
	return s.Buffer.Write(p)
}

func TestWritersStop(t *testing.T) {
	why := errors.New("enough")
	for name, w := range map[string]writer{"lines": WriteLines, "combined": WriteCombined} {
		o := Options{Requests: 1_000_000}
		ctx, cancel := context.WithCancelCause(context.Background())
		s := &stopper{writes: 2, stop: func() { cancel(why) }}
		if err := w(ctx, s, start(t, o)); err != why {
			t.Errorf("%s: got %v, want the cause", name, err)
		}
		if n := s.Len(); n < 2*chunkBytes || n > 2*chunkBytes+2_000 || s.Bytes()[n-1] != '\n' {
			t.Errorf("%s: %d bytes were written, want two chunks of whole lines", name, n)
		}
		var none bytes.Buffer
		if err := w(ctx, &none, start(t, o)); err != why || none.Len() != 0 {
			t.Errorf("%s: %d bytes and %v where the context was done before", name, none.Len(), err)
		}
	}
}

// fullWriter is a writer without space.
type fullWriter struct{}

var errFull = errors.New("no space")

func (fullWriter) Write([]byte) (int, error) { return 0, errFull }

func TestWritersReturnErrors(t *testing.T) {
	for name, w := range map[string]writer{"lines": WriteLines, "combined": WriteCombined} {
		if err := w(context.Background(), fullWriter{}, start(t, Options{Requests: 10})); err != errFull {
			t.Errorf("%s: got %v, want %v", name, err, errFull)
		}
	}
}
