package config

import (
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode"

	"github.com/goccy/go-yaml/ast"

	"github.com/slidegate/slidegate/config/errtext"
	"github.com/slidegate/slidegate/config/yamlfile"
	"github.com/slidegate/slidegate/rule"
)

// Bounds of a deadline. Below the first no store over a network answers, and above the second the client is gone.
const (
	minStoreTimeout = time.Millisecond
	maxStoreTimeout = time.Minute
)

// serviceField reads a field of the file that is not about policies.
func (r *reader) serviceField(s *Service, e yamlfile.Field) {
	switch e.Name {
	case "store":
		s.Store = r.store(e)
	case "store_timeout":
		s.StoreTimeout = r.storeTimeout(e)
	case "failure":
		s.Failure = r.failure(e)
	case "optimism":
		s.Optimism = r.optimism(e)
	case "trusted_proxies":
		s.TrustedProxies = r.proxies(e)
	case "address_groups":
		s.AddressGroups = r.addressGroups(e)
	case "refusal":
		s.Refusal = r.refusal(e)
	}
}

// failure reads what happens when the store does not answer.
func (r *reader) failure(e yamlfile.Field) string {
	text, ok := r.Text(e)
	if ok && !slices.Contains(failures, text) {
		r.Problems.Addf(e.ValueAt(), "%s: %w", e.Name, errtext.Unknown(text, "a failure mode", failures))
	}
	return text
}

// optimism reads how many units of a key are admitted without the store.
func (r *reader) optimism(e yamlfile.Field) int64 {
	before := len(r.Problems)
	n := r.integer(e)
	if len(r.Problems) == before {
		if err := checkOptimism(n); err != nil {
			r.Problems.Addf(e.ValueAt(), "%s: %w", e.Name, err)
		}
	}
	return n
}

func checkOptimism(units int64) error {
	if units < 1 || units > rule.MaxQuota {
		return fmt.Errorf("must be 1 to %d units of a key, not %d", int64(rule.MaxQuota), units)
	}
	return nil
}

// storeTimeout reads a deadline.
func (r *reader) storeTimeout(e yamlfile.Field) time.Duration {
	text, ok := r.Text(e)
	if !ok {
		return 0
	}
	d, err := time.ParseDuration(text)
	_, bare := parseWhole(text)
	switch {
	case bare:
		r.Problems.Addf(e.ValueAt(), "%s: %s has no unit; write a duration such as 100ms or 1s", e.Name, errtext.Quote(text))
	case strings.ContainsFunc(text, unicode.IsSpace):
		r.Problems.Addf(e.ValueAt(), "%s: %s contains a space; write a duration such as 100ms or 1s",
			e.Name, errtext.Quote(text))
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
