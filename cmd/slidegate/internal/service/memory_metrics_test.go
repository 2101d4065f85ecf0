package service_test

import (
	"fmt"
	"net/http"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

// memoryMetric returns the value of a series on /metrics, and fails the test if there is none.
func (s *started) memoryMetric(t *testing.T, name, labels string) int64 {
	t.Helper()
	page := s.send(t, "admin", "GET", "/metrics", "").body
	found := regexp.MustCompile(`(?m)^` + regexp.QuoteMeta("slidegate_memory_"+name+"{"+labels+"}") + ` (\S+)$`).FindStringSubmatch(page)
	if found == nil {
		t.Fatalf("got no %s{%s}:\n%s", name, labels, page)
	}
	n, err := strconv.ParseFloat(found[1], 64)
	if err != nil {
		t.Fatal(err)
	}
	return int64(n)
}

// TestMemoryMetrics: memory use and evictions are reported by limit, from the start.
func TestMemoryMetrics(t *testing.T) {
	const calm, flooded = `limit="calm",policy="other",store="memory"`,
		`limit="default-3600000000",policy="default",store="memory"`
	s := start(t, "store: \"memory:?max_bytes=256KiB\"\npolicies:\n  default: {limits: [1/1h]}\n  other: {limits: [5/1h name=calm]}\n", nil)
	names := []string{"keys_held", "keys_forgotten", "evictions_total", "recalled_total", "recalled_refused_total"}
	for _, name := range names {
		for _, labels := range []string{calm, flooded} {
			if got := s.memoryMetric(t, name, labels); got != 0 {
				t.Errorf("%s at the start: got %d, want 0", name, got)
			}
		}
	}
	const keys = 5000
	for range 2 {
		for batch := range keys / 500 {
			var requests []string
			for i := range 500 {
				requests = append(requests, fmt.Sprintf(`{"key":"key %d"}`, 500*batch+i))
			}
			if got := s.send(t, "http", "POST", "/v1/allow", `{"requests":[`+strings.Join(requests, ",")+"]}"); got.status != http.StatusOK {
				t.Fatalf("batch %d: got %+v, want 200", batch, got)
			}
		}
	}
	for _, name := range names {
		if got := s.memoryMetric(t, name, flooded); got <= 0 || got > 2*keys {
			t.Errorf("%s: got %d after a flood of %d keys", name, got, keys)
		}
		if got := s.memoryMetric(t, name, calm); got != 0 {
			t.Errorf("%s of the other limit: got %d", name, got)
		}
	}
	if got := s.memoryMetric(t, "recalled_refused_total", flooded); got < keys/4 {
		t.Errorf("got %d evicted keys refused, want most of %d", got, keys)
	}
	used, bound := s.memoryMetric(t, "used_bytes", `store="memory"`), s.memoryMetric(t, "bound_bytes", `store="memory"`)
	if bound != 256<<10 || used < bound/4 || used > bound {
		t.Errorf("got %d of %d bytes in use, want most of 256 KiB", used, bound)
	}
}
