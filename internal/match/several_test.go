package match

import (
	"net/http/httptest"
	"slices"
	"testing"
)

// Of several patterns the most specific decides, and the first in the list of those that ServeMux would not accept together.
func TestSeveralPatterns(t *testing.T) {
	for _, test := range []struct {
		patterns     []string
		method, path string
		want         []int
	}{
		{[]string{"/api/", "POST /api/search", "/api/{id}"}, "GET", "/api/x/y", []int{0}},
		{[]string{"/api/", "POST /api/search", "/api/{id}"}, "POST", "/api/search", []int{1}},
		{[]string{"/api/", "POST /api/search", "/api/{id}"}, "GET", "/api/search", []int{2}},
		{[]string{"/api/", "POST /api/search", "/api/{id}"}, "GET", "/other", nil},
		{[]string{"/api/", "POST /api/search"}, "GET", "/api", []int{0}}, // ServeMux redirects it there
		{[]string{"/x", "shop.example/", "shop.example/x"}, "GET", "http://SHOP.example.:80/x", []int{2}},
		// These overlap, and neither is more specific than the other.
		{[]string{"POST /", "/login"}, "POST", "/login", []int{0}},
		{[]string{"/login", "POST /"}, "POST", "/login", []int{0}},
		{[]string{"POST /", "/login"}, "GET", "/login", []int{1}},
		{[]string{"POST /", "/login"}, "POST", "/other", []int{0}},
		{[]string{"POST /", "/login"}, "GET", "/other", nil},
		// The third is more specific than both, though it shares a mux with only one of them.
		{[]string{"POST /", "/login", "POST /login"}, "POST", "/login", []int{2}},
		{[]string{"/", "POST /", "/a/", "POST /a/b", "/a/b"}, "POST", "/a/b", []int{3}},
		{[]string{"/", "POST /", "/a/", "POST /a/b", "/a/b"}, "GET", "/a/b", []int{4}},
		{[]string{"/", "POST /", "/a/", "POST /a/b", "/a/b"}, "POST", "/a/c", []int{1}},
		{[]string{"/", "POST /", "/a/", "POST /a/b", "/a/b"}, "GET", "/", []int{0}},
		// A path with several readings has one pattern per reading.
		{[]string{"/a/", "/a/b"}, "GET", "/a/x%2F..%2Fb", []int{0, 1}},
	} {
		m, err := New(test.patterns...)
		if err != nil {
			t.Fatalf("New(%q) returned the error %v, want none", test.patterns, err)
		}
		r := httptest.NewRequest(test.method, test.path, nil)
		if got := m.AppendIndexes(nil, r); !slices.Equal(got, test.want) {
			t.Errorf("%s %s among %q : got %d, want %d", test.method, test.path, test.patterns, got, test.want)
		}
		if got := m.Match(r); got != (test.want != nil) {
			t.Errorf("%s %s : got a match with %q: %t", test.method, test.path, test.patterns, got)
		}
		for i, sample := range m.Samples() {
			if !m.Match(sample) {
				t.Errorf("the sample of %q does not match", test.patterns[i])
			}
		}
	}
}

func TestEqualPatterns(t *testing.T) {
	for _, patterns := range [][]string{
		{"/a", "/a"}, {"/{x}", "/{y}"}, {"/a/", "/a/{rest...}"}, {"GET  /a", "GET /a"}, {"SHOP.example/", "shop.example./"}, {"/a", ""},
	} {
		if m, err := New(patterns...); err == nil {
			t.Errorf("New(%q) returned %+v, want an error", patterns, m)
		}
	}
}

// Samples finds the same matches as every matcher by itself.
func TestSamples(t *testing.T) {
	lists := [][]string{
		{"/a/", "POST /a/b"}, {"/a"}, {"/a/{x}"}, {"/{x}/b"}, {"/a/b/{$}"}, {"/a/{rest...}"}, {"/a%20c", "/a%2Fb"}, {"shop.example/a/b"}, {"GET /{x}/{y}/c"}, {"/"}, {"/{$}"}, nil,
	}
	var matchers []*Matcher
	for _, patterns := range lists {
		m, err := New(patterns...)
		if err != nil {
			t.Fatal(err)
		}
		matchers = append(matchers, m)
	}
	samples, matches := Samples(matchers)
	if len(samples) != 14 { // one per pattern, and one for the matcher without any
		t.Fatalf("got %d samples, want 14", len(samples))
	}
	found := 0
	for i, sample := range samples {
		for j, m := range matchers {
			want := m.Match(sample)
			if got := matches(i, j); got != want {
				t.Errorf("%s %s and %q: got %t, want %t", sample.Method, sample.URL, lists[j], got, want)
			}
			if want {
				found++
			}
		}
	}
	if found < 40 {
		t.Errorf("got only %d matches, so the samples say little", found)
	}
}
