package main

import (
	"net/http"
	"strings"
	"testing"
	"time"
)

// Every middleware must admit the quota and then refuse with a 429, and send the headers that its row lists, or the comparison
// would not be fair.
func TestMiddlewaresAdmitTheQuota(t *testing.T) {
	const quota = 50
	for _, m := range middlewares() {
		if m.name == rowHandlerAlone {
			continue
		}
		t.Run(m.name, func(t *testing.T) {
			o, err := m.open(spec{quota: quota, window: time.Hour})
			if err != nil {
				t.Fatal(err)
			}
			s := newServedHandler(o)
			defer s.Close()
			for i := range 2 * quota {
				if got := s.Allow(""); got != (i < quota) {
					t.Fatalf("request %d: admitted %v", i, got)
				}
				checkHeaders(t, &m, s.recorder.header)
			}
			// Each address has its own quota.
			s.request.RemoteAddr = "203.0.113.78:49152"
			if !s.Allow("") {
				t.Error("another address is refused")
			}
			// Another port is the same client.
			s.request.RemoteAddr = "203.0.113.77:50000"
			if s.Allow("") {
				t.Error("another port is admitted")
			}
		})
	}
}

// checkHeaders checks that the rate limit headers are those that the row lists.
func checkHeaders(t *testing.T, m *middleware, header http.Header) {
	t.Helper()
	var got []string
	for name := range header {
		if strings.Contains(strings.ToLower(strings.ReplaceAll(name, "-", "")), "ratelimit") {
			got = append(got, name)
		}
	}
	want := map[string]int{"none": 0, "2 RateLimit (IETF)": 2, "3 X-RateLimit": 3, "3 RateLimit, 3 X-Rate-Limit": 6}
	if n, ok := want[m.headers]; !ok || len(got) != n {
		t.Fatalf("got headers %q, want %q", got, m.headers)
	}
}

// What the harness does itself must not count as an allocation of the middleware.
func TestHandlerAloneDoesNotAllocate(t *testing.T) {
	for _, m := range middlewares() {
		if m.name != rowHandlerAlone {
			continue
		}
		o, err := m.open(spec{})
		if err != nil {
			t.Fatal(err)
		}
		s := newServedHandler(o)
		if n := testing.AllocsPerRun(100, func() { s.Allow("") }); n != 0 {
			t.Errorf("got %v allocations, want none", n)
		}
		return
	}
	t.Fatal("no such row")
}

func TestGoals(t *testing.T) {
	m := middleware{family: own, mostAllocs: 2}
	for _, c := range []struct {
		part, allocs float64
		admits       bool
		want         string
	}{
		{0.20, 2, true, "0.20x, 2 allocs: met"},
		{0.20, 3, true, "0.20x, 2 allocs: missed"},
		{0.21, 2, true, "0.20x, 2 allocs: missed"},
		{0.20, 3, false, "0.20x: met"},
		{0.21, 3, false, "0.20x: missed"},
	} {
		if got := m.goal(c.part, c.allocs, 0.20, c.admits); got != c.want {
			t.Errorf("goal(%g, %g, 0.20, %v) = %q, want %q", c.part, c.allocs, c.admits, got, c.want)
		}
	}
}
