package httplimit

import (
	"net/http"
	"regexp"
	"strings"
)

// Matcher reports which requests a pattern of http.ServeMux is for. It is stricter than a router, so that another spelling
// is not a way around a limit: hosts are compared without regard to case, a trailing dot and the port, and a path in which
// slashes or dots are percent-encoded, or that has backslashes, which Node takes for slashes, matches if any reading of it does. It
// is safe for concurrent use. A nil Matcher matches every request.
type Matcher struct {
	mux     *http.ServeMux
	pattern string
	hosted  bool // the pattern has a host
}

// NewMatcher returns the Matcher of a pattern, such as "POST /login" or "api.example.com/"; nil if the pattern is empty. A
// pattern that ServeMux would take and that fits nothing it was meant for is an error: the * of a glob, a regular expression, a
// query, a port. The error is a PatternError.
func NewMatcher(pattern string) (*Matcher, error) {
	if pattern == "" {
		return nil, nil
	}
	if err := checkPattern(pattern); err != nil {
		return nil, &PatternError{Pattern: pattern, Err: err}
	}
	method, host, path := splitPattern(pattern)
	m := &Matcher{mux: http.NewServeMux(), hosted: host != ""}
	m.pattern = method + CanonicalHost(host) + path
	if err := register(m.mux, m.pattern); err != nil {
		return nil, &PatternError{Pattern: pattern, Err: err}
	}
	return m, nil
}

// splitPattern splits a pattern into the method with the space after it, the host and the path.
func splitPattern(pattern string) (method, host, path string) {
	slash := strings.IndexByte(pattern, '/')
	if slash < 0 {
		return "", "", pattern // which ServeMux refuses
	}
	before := strings.LastIndexAny(pattern[:slash], " \t") + 1
	return pattern[:before], pattern[before:slash], pattern[slash:]
}

// CanonicalHost returns a host in lower case, without dots at its end and without a port: all spellings of a host that reach
// the same site are one, as matches compare them and keys should have them.
func CanonicalHost(host string) string {
	if !strings.HasPrefix(host, "[") {
		host, _, _ = strings.Cut(host, ":")
	} else if end := strings.IndexByte(host, ']'); end > 0 { // an IPv6 address, with colons of its own
		host = host[:end+1]
	}
	return strings.ToLower(strings.TrimRight(host, "."))
}

// Match reports whether the pattern is for this request.
func (m *Matcher) Match(r *http.Request) bool {
	if m == nil {
		return true
	}
	if m.hosted {
		r = withCanonicalHost(r)
	}
	_, pattern := m.mux.Handler(r)
	if pattern == "" && r.URL.RawPath != "" {
		decoded, target := *r, *r.URL
		target.RawPath = ""
		decoded.URL = &target
		_, pattern = m.mux.Handler(&decoded)
		if pattern == "" && strings.Contains(target.Path, `\`) {
			target.Path = strings.ReplaceAll(target.Path, `\`, "/")
			_, pattern = m.mux.Handler(&decoded)
		}
	}
	return pattern != ""
}

// withCanonicalHost returns r with the host as patterns have it. A copy is made only of a request that needs one: ServeMux cuts
// the port off by itself, but for CONNECT, and with it the brackets of an IPv6 address.
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

// wildcard is what stands for any segment, for the rest of a path, or for its end.
var wildcard = regexp.MustCompile(`\{[^}]*\}`)

// Sample returns a request that the pattern is for.
func (m *Matcher) Sample() *http.Request {
	method, host, path := http.MethodGet, "sample.invalid", "/"
	if m != nil {
		var own string
		if method, own, path = splitPattern(m.pattern); own != "" {
			host = own
		}
		if method = strings.TrimSpace(method); method == "" {
			method = http.MethodGet
		}
	}
	path = wildcard.ReplaceAllStringFunc(path, func(name string) string {
		if name == "{$}" {
			return ""
		}
		return "x"
	})
	r, err := http.NewRequest(method, "http://"+host+path, nil)
	if err != nil { // a pattern that no request has, and so one that meets no other
		r, _ = http.NewRequest(http.MethodGet, "http://sample.invalid/", nil)
	}
	return r
}
