package config

import (
	"slices"
	"time"

	"github.com/goccy/go-yaml/ast"

	"github.com/slidegate/slidegate/internal/errtext"
	"github.com/slidegate/slidegate/internal/yamlfile"
	"github.com/slidegate/slidegate/store"
)

// Bounds of a deadline. Below the first no store over a network answers, and above the second the client is gone.
const (
	minStoreTimeout = time.Millisecond
	maxStoreTimeout = time.Minute
)

// failure reads what decides when the store does not answer.
func (r *reader) failure(e yamlfile.Field) (mode store.Mode) {
	text, ok := r.Text(e)
	if !ok {
		return 0
	}
	mode, err := store.ParseMode(text)
	if err != nil {
		r.Problems.Addf(e.ValueAt(), "%s: %w", e.Name, err)
	}
	return mode
}

// storeTimeout reads a deadline.
func (r *reader) storeTimeout(e yamlfile.Field) (d time.Duration) {
	text, ok := r.duration(e, "100ms or 1s")
	if !ok {
		return 0
	}
	d, err := time.ParseDuration(text)
	switch {
	case err != nil:
		r.Problems.Addf(e.ValueAt(), "%s: %s is not a duration such as 100ms or 1s", e.Name, errtext.Quote(text))
	case d < minStoreTimeout || d > maxStoreTimeout:
		r.Problems.Addf(e.ValueAt(), "%s: must be 1ms to 1m, not %s", e.Name, errtext.Quote(text))
	}
	return d
}

// defaultPolicy reads the name of one of the policies.
func (r *reader) defaultPolicy(e yamlfile.Field, policies []Policy) string {
	text, ok := r.Text(e)
	if !ok || len(policies) == 0 {
		return text
	}
	names := make([]string, len(policies))
	for i := range policies {
		names[i] = policies[i].Name
	}
	if !slices.Contains(names, text) {
		r.Problems.Addf(e.ValueAt(), "%s: %w", e.Name, errtext.Unknown(text, "a policy", names))
	}
	return text
}

// items returns the values of a list with their positions; what names the items in the error if e is not a list. A list may be
// empty.
func (r *reader) items(e yamlfile.Field, what string) (items []yamlfile.Field) {
	list, ok := e.Value.(*ast.SequenceNode)
	if !ok {
		r.Problems.Addf(e.ValueAt(), "%s: must be a list of %s, not %s", e.Name, what, yamlfile.Describe(e.Value))
		return nil
	}
	for _, item := range list.Values {
		if !r.Visit(item) {
			break
		}
		if value := r.Resolve(item); value != nil {
			items = append(items, yamlfile.Field{Name: e.Name, At: yamlfile.PositionOf(item), Value: value})
		}
	}
	return items
}
