package match

import (
	"net/http"
	"net/url"
	"slices"
	"strings"
)

// starts has the methods of patterns by the first segment of their paths, and below anyStart those of patterns that begin with a
// wildcard, or match every path. An empty method stands for all. A service may have a hundred policies, of which few match a
// request; this tells most of the others apart without asking a ServeMux, which takes about thirty times as long.
type starts map[string][]string

// anyStart is no segment, since segments contain no slash.
const anyStart = "/"

// add adds a pattern.
func (s starts) add(method, path string) {
	segment := firstSegment(path)
	decoded, err := url.PathUnescape(segment)
	if segment == "" || strings.Contains(segment, "{") || err != nil {
		decoded = anyStart
	}
	s[decoded] = append(s[decoded], method)
	if method == http.MethodGet { // which ServeMux takes to match HEAD too
		s[decoded] = append(s[decoded], http.MethodHead)
	}
}

// mayMatch reports whether a pattern may match a request about whose path all servers agree. ServeMux removes dot segments first,
// so they say nothing.
func (s starts) mayMatch(r *http.Request) bool {
	path := r.URL.Path
	if r.Method == "" || !strings.HasPrefix(path, "/") || strings.Contains(path, "/.") {
		return true
	}
	for _, methods := range [][]string{s[anyStart], s[firstSegment(path)]} {
		if slices.Contains(methods, "") || slices.Contains(methods, r.Method) {
			return true
		}
	}
	return false
}

// firstSegment returns what is between the first two slashes of a path.
func firstSegment(path string) string {
	segment, _, _ := strings.Cut(strings.TrimPrefix(path, "/"), "/")
	return segment
}
