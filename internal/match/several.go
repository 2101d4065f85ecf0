package match

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
)

// add adds a pattern to the first mux that accepts it. ServeMux rejects two patterns that overlap if neither is more specific;
// here both are wanted, so each gets its own mux.
func (m *Matcher) add(pattern string) error {
	fresh := http.NewServeMux()
	if err := register(fresh, pattern); err != nil {
		return err
	}
	plain := withoutNames(pattern)
	if other, known := m.plain[plain]; known {
		return fmt.Errorf("%s matches the same requests as %s; remove one", quoted(pattern), quoted(other))
	}
	m.plain[plain] = pattern
	m.indexes[pattern] = len(m.patterns)
	m.patterns = append(m.patterns, pattern)
	for _, mux := range m.muxes {
		if register(mux, pattern) == nil {
			return nil
		}
	}
	m.muxes = append(m.muxes, fresh)
	return nil
}

// withoutNames returns a pattern without the names of its wildcards, and with one space after the method. Patterns that match the
// same requests become equal.
func withoutNames(pattern string) string {
	method, host, path := splitPattern(pattern)
	path = wildcard.ReplaceAllStringFunc(path, func(name string) string {
		switch {
		case name == "{$}":
			return name
		case strings.HasSuffix(name, "...}"):
			return "" // /files/{rest...} is the same as /files/
		}
		return "{}"
	})
	return strings.TrimSpace(method) + " " + host + path
}

// compareAll records which patterns are more specific than others.
func (m *Matcher) compareAll() {
	m.narrower = map[[2]int]bool{}
	alone := make([]*http.ServeMux, len(m.patterns))
	for i, pattern := range m.patterns {
		alone[i] = http.NewServeMux()
		_ = register(alone[i], pattern) // it has been accepted before
	}
	for i, pattern := range m.patterns {
		// A request that matches the more specific pattern matches the other too.
		sample := sampleOf(pattern)
		for j, other := range m.patterns {
			if _, fits := alone[j].Handler(sample); i != j && fits != "" && isPreferred(pattern, other, sample) {
				m.narrower[[2]int{i, j}] = true
			}
		}
	}
}

// isPreferred reports whether ServeMux prefers pattern to other for a request that both match.
func isPreferred(pattern, other string, sample *http.Request) bool {
	both := http.NewServeMux()
	if register(both, pattern) != nil || register(both, other) != nil {
		return false
	}
	_, chosen := both.Handler(sample)
	return chosen == pattern
}

// appendIndex appends the index of the pattern that decides about one reading of a request.
func (m *Matcher) appendIndex(to []int, r *http.Request) []int {
	if len(m.muxes) == 1 {
		if _, pattern := m.muxes[0].Handler(r); pattern != "" {
			return append(to, m.indexes[pattern])
		}
		return to
	}
	var fitting []int // the most specific pattern of each mux
	for _, mux := range m.muxes {
		if _, pattern := mux.Handler(r); pattern != "" {
			fitting = append(fitting, m.indexes[pattern])
		}
	}
	slices.Sort(fitting)
	for _, index := range fitting {
		if !slices.ContainsFunc(fitting, func(other int) bool { return m.narrower[[2]int{other, index}] }) {
			return append(to, index)
		}
	}
	return to
}
