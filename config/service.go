package config

import (
	"slices"
	"strings"
	"time"
	"unicode"

	"github.com/goccy/go-yaml/ast"
)

// The bounds of a deadline. Below the first no store over a network answers, and above the second the client has gone.
const (
	minStoreTimeout = time.Millisecond
	maxStoreTimeout = time.Minute
)

// serviceField reads a field of the file that is not about policies.
func (r *reader) serviceField(s *Service, e entry) {
	switch e.name {
	case "store":
		s.Store = r.store(e)
	case "store_timeout":
		s.StoreTimeout = r.storeTimeout(e)
	case "failure":
		s.Failure = r.failure(e)
	case "trusted_proxies":
		s.TrustedProxies = r.proxies(e)
	}
}

// failure reads what happens when the store does not answer.
func (r *reader) failure(e entry) string {
	ways := []string{FailOpen, FailClosed, FailLocal}
	text, ok := r.text(e)
	if ok && !slices.Contains(ways, text) {
		r.problems.addf(positionOf(e.value), "%s: %w", e.name, unknown(text, "a way to fail", ways))
	}
	return text
}

// storeTimeout reads a deadline.
func (r *reader) storeTimeout(e entry) time.Duration {
	text, ok := r.text(e)
	if !ok {
		return 0
	}
	d, err := time.ParseDuration(text)
	_, bare := parseWhole(text)
	switch {
	case bare:
		r.problems.addf(positionOf(e.value), "%s: %s has no unit; write a length of time such as 100ms or 1s", e.name, quote(text))
	case strings.ContainsFunc(text, unicode.IsSpace):
		r.problems.addf(positionOf(e.value), "%s: %s has a space in it; write a length of time such as 100ms or 1s",
			e.name, quote(text))
	case err != nil:
		r.problems.addf(positionOf(e.value), "%s: %s is not a length of time such as 100ms or 1s", e.name, quote(text))
	case d < minStoreTimeout || d > maxStoreTimeout:
		r.problems.addf(positionOf(e.value), "%s: must be 1ms to 1m, not %s", e.name, quote(text))
	}
	return d
}

// defaultPolicy reads the name of one of the policies.
func (r *reader) defaultPolicy(e entry, policies []Policy) string {
	text, ok := r.text(e)
	if !ok || len(policies) == 0 {
		return text
	}
	names := make([]string, len(policies))
	for i := range policies {
		names[i] = policies[i].Name
	}
	if !slices.Contains(names, text) {
		r.problems.addf(positionOf(e.value), "%s: %w", e.name, unknown(text, "a policy", names))
	}
	return text
}

// items returns the values of a list, each with where it stands; what is in the list belongs to the error if it is none.
// A list may be empty.
func (r *reader) items(e entry, what string) (items []entry) {
	list, ok := e.value.(*ast.SequenceNode)
	if !ok {
		r.problems.addf(positionOf(e.value), "%s: must be a list of %s, not %s", e.name, what, nameOf(e.value))
		return nil
	}
	for _, item := range list.Values {
		if !r.visit(item) {
			break
		}
		if value := r.resolve(item); value != nil {
			items = append(items, entry{name: e.name, at: positionOf(item), value: value})
		}
	}
	return items
}
