package config

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/goccy/go-yaml/ast"

	"github.com/slidegate/slidegate/internal/errtext"
	"github.com/slidegate/slidegate/internal/fields"
	"github.com/slidegate/slidegate/internal/match"
	"github.com/slidegate/slidegate/internal/options"
	"github.com/slidegate/slidegate/internal/yamlfile"
)

// Route is a pattern of requests that a policy applies to, and the cost of such a request.
type Route struct {
	// Pattern is a pattern of http.ServeMux.
	Pattern string
	// Cost is the cost of the requests that this pattern decides about: those that no more specific pattern of the policy
	// matches. nil means the policy's cost.
	Cost *fields.Cost
	// Unlimited exempts these requests from the policy.
	Unlimited bool
}

// Routes returns the Match of a policy for these patterns, all with the policy's cost. Empty patterns are left out.
func Routes(patterns ...string) (routes []Route) {
	for _, pattern := range patterns {
		if pattern != "" {
			routes = append(routes, Route{Pattern: pattern})
		}
	}
	return routes
}

// Patterns returns the patterns of Match, for match.New.
func (p *Policy) Patterns() (patterns []string) {
	for _, route := range p.Match {
		patterns = append(patterns, route.Pattern)
	}
	return patterns
}

// CostAt returns the cost of requests for which the pattern at this index of Match decides.
func (p *Policy) CostAt(index int) fields.Cost {
	if cost := p.Match[index].Cost; cost != nil {
		return *cost
	}
	return p.Cost
}

// Exempts reports whether a request is exempt from the policy, given the indexes of the patterns that decide about it. A path
// with several readings is exempt only if all of them are, so that no spelling lifts a limit.
func (p *Policy) Exempts(indexes []int) bool {
	return len(indexes) > 0 && !slices.ContainsFunc(indexes, func(i int) bool { return !p.Match[i].Unlimited })
}

// maxRoutes is the maximum number of patterns of a policy.
const maxRoutes = 100

// match reads a pattern of requests, or a list of them.
func (r *reader) match(e yamlfile.Field) (routes []Route) {
	if _, isList := e.Value.(*ast.SequenceNode); !isList {
		if yamlfile.IsMapping(e.Value) {
			r.Problems.Addf(e.ValueAt(), "match: must be a pattern or a list, not a mapping; write [ and ] around it")
			return nil
		}
		pattern, _ := r.pattern(e)
		r.noteExact(e.ValueAt(), pattern)
		return Routes(pattern)
	}
	items := r.items(e, "patterns, or of mappings with path, and cost or unlimited")
	switch {
	case len(items) == 0:
		r.Problems.Addf(e.ValueAt(), "match: the list is empty; write a pattern, or leave match out for every request")
	case len(items) > maxRoutes:
		r.Problems.Addf(items[maxRoutes].At, "match: a policy may have at most %d patterns", maxRoutes)
		return nil
	}
	before := len(r.Problems)
	for _, item := range items {
		routes = append(routes, r.route(item))
	}
	if len(r.Problems) > before {
		return routes
	}
	r.checkDistinct(items, routes)
	if len(routes) > 0 && !slices.ContainsFunc(routes, func(route Route) bool { return !route.Unlimited }) {
		r.Problems.Addf(e.ValueAt(), "match: all patterns are unlimited; add the pattern of the requests that are limited, such as / for all others")
	}
	for i, route := range routes {
		if !route.Unlimited {
			r.noteExact(items[i].At, route.Pattern)
		}
	}
	return routes
}

// pattern reads one pattern, and reports whether it is valid.
func (r *reader) pattern(e yamlfile.Field) (string, bool) {
	text, ok := r.Text(e)
	if !ok {
		return "", false
	}
	if err := checkMatch(text); err != nil {
		r.Problems.Addf(e.ValueAt(), "match: %w", err)
		return "", false
	}
	return text, true
}

// route reads an item of a list of patterns.
func (r *reader) route(item yamlfile.Field) (route Route) {
	if !yamlfile.IsMapping(item.Value) {
		route.Pattern, _ = r.pattern(item)
		return route
	}
	given := routeTable.read(r, item.Value, "a pattern", &route)
	if route.Unlimited && route.Cost != nil {
		r.Problems.Addf(item.At, "match: the pattern has a cost and is unlimited; leave one out")
	}
	if !given.has("path") {
		r.Problems.Addf(item.At, "match: has no path; add path: /api/, say")
	}
	return route
}

// checkDistinct reports patterns that match the same requests.
func (r *reader) checkDistinct(items []yamlfile.Field, routes []Route) {
	all := Policy{Match: routes}
	if _, err := match.New(all.Patterns()...); err == nil {
		return
	}
	for i := range routes {
		for k := range i {
			if _, err := match.New(routes[k].Pattern, routes[i].Pattern); err != nil {
				r.Problems.Addf(items[i].At, "match: %s matches the same requests as %s on line %d; remove one",
					errtext.Quote(routes[i].Pattern), errtext.Quote(routes[k].Pattern), items[k].At.Line)
				break
			}
		}
	}
}

// CheckMatch returns an error if a pattern is invalid, or matches none of the requests that it was meant for. It is the check
// of Parse, for patterns that are not in a file. The error is an *options.Error.
func CheckMatch(pattern string) error {
	if err := checkMatch(pattern); err != nil {
		return &options.Error{Package: "config", Option: "match", Err: err}
	}
	return nil
}

func checkMatch(pattern string) error {
	if pattern == "" {
		return errors.New("the pattern is empty; leave match out for every request")
	}
	if _, err := match.New(pattern); err != nil {
		return err
	}
	if method, rest, found := strings.Cut(pattern, " "); found {
		return checkMethod(method, strings.TrimLeft(rest, " \t"))
	}
	return nil
}

// usualMethods are the methods of nearly all requests. otherMethods are valid too, though they look like misspellings.
var (
	usualMethods = []string{"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"}
	otherMethods = []string{
		"CONNECT", "TRACE", "QUERY", "SEARCH", "REPORT", "LOCK", "UNLOCK", "COPY", "MOVE", "LINK", "UNLINK", "PURGE", "BAN", "PUSH", "PULL",
		"PRI", "ACL", "BIND", "LABEL", "MERGE", "MKCOL",
	}
)

// checkMethod rejects a method that is probably misspelled. Any other may be an application's own.
func checkMethod(method, rest string) error {
	if slices.Contains(usualMethods, method) || slices.Contains(otherMethods, method) {
		return nil
	}
	if near, ok := errtext.Nearest(method, usualMethods); ok {
		return fmt.Errorf("unknown method %s; write %s", errtext.Quote(method), errtext.Quote(near+" "+rest))
	}
	return nil
}
