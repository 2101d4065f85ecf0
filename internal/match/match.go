// Package match matches requests against patterns of http.ServeMux, so that another spelling of a request is not a way around a
// limit. The middleware, policy files, the service and replay use it.
package match

import (
	"net/http"
	"regexp"
	"strings"
)

// Matcher matches requests against one or several patterns of http.ServeMux. It is stricter than a router, so that another
// spelling is not a way around a limit: methods are compared without regard to case, and hosts without regard to case, a trailing
// dot and the port. A path that servers read in several ways matches if any reading of it does: with percent-encoded slashes or
// dots, with backslashes, with a fragment, or with a leading // that some servers read as the start of a host, as in
// //host/login. It is safe for concurrent use. A nil Matcher matches every request.
type Matcher struct {
	muxes    []*http.ServeMux  // one, unless patterns overlap and neither is more specific
	patterns []string          // as registered in the muxes
	indexes  map[string]int    // index of each pattern
	plain    map[string]string // patterns by their text without the names of wildcards
	hasHost  bool              // a pattern has a host
	starts   starts            // finds out quickly that none of them matches
	narrower map[[2]int]bool   // whether the pattern at the first index is more specific than the one at the second; nil if there is one mux
}

// New returns the Matcher of patterns such as "POST /login" or "api.example.com/"; nil if there are none, or only an
// empty one. A pattern that ServeMux would accept but that cannot match what it was meant for is an error: the * of a glob, a
// regular expression, a query, a port. So are two patterns that match the same requests.
func New(patterns ...string) (*Matcher, error) {
	if len(patterns) == 0 || len(patterns) == 1 && patterns[0] == "" {
		return nil, nil
	}
	m := &Matcher{indexes: map[string]int{}, plain: map[string]string{}, starts: starts{}}
	for _, pattern := range patterns {
		if err := checkPattern(pattern); err != nil {
			return nil, err
		}
		method, host, path := splitPattern(pattern)
		m.hasHost = m.hasHost || host != ""
		if err := m.add(method + CanonicalHost(host) + path); err != nil {
			return nil, err
		}
		m.starts.add(strings.TrimSpace(method), path)
	}
	if len(m.muxes) > 1 {
		m.compareAll()
	}
	return m, nil
}

// splitPattern splits a pattern into the method with the space after it, the host and the path.
func splitPattern(pattern string) (method, host, path string) {
	slash := strings.IndexByte(pattern, '/')
	if slash < 0 {
		return "", "", pattern // ServeMux rejects it
	}
	before := strings.LastIndexAny(pattern[:slash], " \t") + 1
	return pattern[:before], pattern[before:slash], pattern[slash:]
}

// CanonicalHost returns a host in lower case, without trailing dots and without a port. All spellings of a host that reach the
// same site become one, as patterns compare them and keys should contain them.
func CanonicalHost(host string) string {
	if !strings.HasPrefix(host, "[") {
		host, _, _ = strings.Cut(host, ":")
	} else if end := strings.IndexByte(host, ']'); end > 0 { // an IPv6 address, which contains colons
		host = host[:end+1]
	}
	return strings.ToLower(strings.TrimRight(host, "."))
}

// Match reports whether one of the patterns matches this request.
func (m *Matcher) Match(r *http.Request) bool {
	if m == nil {
		return true
	}
	var room [4]int
	return len(m.AppendIndexes(room[:0], r)) > 0
}

// AppendIndexes appends the index of the pattern that decides about a request, among the patterns given to New; nothing
// if none matches. That is the most specific pattern, in the sense of ServeMux, and the first of several if none is more
// specific. A request that servers read in several ways may add one index per reading, also the same one again.
func (m *Matcher) AppendIndexes(to []int, r *http.Request) []int {
	if m == nil {
		return to
	}
	plain := isPlain(r)
	if plain && !m.starts.mayMatch(r) {
		return to
	}
	if m.hasHost {
		r = withCanonicalHost(r)
	}
	if plain {
		return m.appendIndex(to, r)
	}
	return m.appendReadings(to, r)
}

// withCanonicalHost returns r with its host as patterns have it. Only a request that needs it is copied: ServeMux removes the
// port itself, except for CONNECT, and with it the brackets of an IPv6 address.
func withCanonicalHost(r *http.Request) *http.Request {
	host := CanonicalHost(r.Host)
	if strings.HasPrefix(r.Host, host) && !strings.HasPrefix(host, "[") && (len(r.Host) == len(host) ||
		strings.LastIndexByte(r.Host, ':') == len(host) && r.Method != http.MethodConnect) {
		return r
	}
	seen := *r
	seen.Host = host
	return &seen
}

// wildcard matches a wildcard for one segment, for the rest of a path, or for its end.
var wildcard = regexp.MustCompile(`\{[^}]*\}`)

// Samples returns one matching request per pattern; one request for a nil Matcher.
func (m *Matcher) Samples() (samples []*http.Request) {
	if m == nil {
		return []*http.Request{sampleOf("/")}
	}
	for _, pattern := range m.patterns {
		samples = append(samples, sampleOf(pattern))
	}
	return samples
}

// sampleOf returns a request that a pattern matches.
func sampleOf(pattern string) *http.Request {
	method, host, path := splitPattern(pattern)
	if host == "" {
		host = "sample.invalid"
	}
	if method = strings.TrimSpace(method); method == "" {
		method = http.MethodGet
	}
	path = wildcard.ReplaceAllStringFunc(path, func(name string) string {
		if name == "{$}" {
			return ""
		}
		return "x"
	})
	r, err := http.NewRequest(method, "http://"+host+path, nil)
	if err != nil { // no request can match the pattern, so it overlaps with no other
		r, _ = http.NewRequest(http.MethodGet, "http://sample.invalid/", nil)
	}
	return r
}
