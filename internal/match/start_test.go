package match

import (
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"slices"
	"testing"
)

// A matcher finds what it finds without looking at the start of a path first.
func TestStartsMissNothing(t *testing.T) {
	const seed = 7
	random := rand.New(rand.NewPCG(seed, 0))
	pick := func(from ...string) string { return from[random.IntN(len(from))] }
	methods := []string{"", "", "GET ", "POST ", "HEAD ", "DELETE ", "OPTIONS "}
	segments := []string{"a", "b", "{x}", "%2A", "a%20b", "é", "a.b"}
	matched, skipped := 0, 0
	for range 3000 {
		var patterns []string
		for range 1 + random.IntN(4) {
			pattern := pick(methods...) + pick("", "", "example.com") + "/"
			for range random.IntN(3) {
				pattern += pick(segments...) + "/"
			}
			patterns = append(patterns, pattern+pick("", "", "a", "{$}", "{rest...}"))
		}
		m, err := New(patterns...)
		if err != nil {
			continue // two of them match the same requests
		}
		for range 20 {
			target := "/"
			for range random.IntN(4) {
				target += pick("a", "b", "c", "*", "%2A", "a%20b", "a%2Fb", "%C3%A9", "..", ".", "", "a.b") + pick("/", "/", "")
			}
			method := pick("GET", "POST", "HEAD", "DELETE", "CONNECT", "get", "OPTIONS")
			r := httptest.NewRequest(method, "http://"+pick("example.com", "Example.com:80", "other")+target, nil)
			got := m.AppendIndexes(nil, r)
			slow := *m
			slow.starts = starts{anyStart: {""}}
			if want := slow.AppendIndexes(nil, r); !slices.Equal(got, want) {
				t.Fatalf("seed %d: %q with %s %s: got %v, want %v", seed, patterns, method, r.URL, got, want)
			}
			matched += len(got)
			if isPlain(r) && !m.starts.mayMatch(r) {
				skipped++
			}
		}
	}
	if matched < 1000 || skipped < 1000 {
		t.Errorf("got %d matches and %d requests that were told apart at once, want at least 1000 of each", matched, skipped)
	}
}

// BenchmarkMatchPolicies matches a request against a hundred policies of twenty patterns, of which one matches.
func BenchmarkMatchPolicies(b *testing.B) {
	var matchers []*Matcher
	for i := range 100 {
		var patterns []string
		for j := range 20 {
			patterns = append(patterns, fmt.Sprintf("GET /service%d/items%d/{id}", i, j))
		}
		m, err := New(patterns...)
		if err != nil {
			b.Fatal(err)
		}
		matchers = append(matchers, m)
	}
	r := httptest.NewRequest(http.MethodGet, "/service50/items7/x", nil)
	b.ReportAllocs()
	for b.Loop() {
		found := 0
		for _, m := range matchers {
			if m.Match(r) {
				found++
			}
		}
		if found != 1 {
			b.Fatalf("%d policies match", found)
		}
	}
}
