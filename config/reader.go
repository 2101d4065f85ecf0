package config

import (
	"slices"
	"strings"

	"github.com/goccy/go-yaml/ast"

	"github.com/slidegate/slidegate/clientip"
	"github.com/slidegate/slidegate/config/wording"
	"github.com/slidegate/slidegate/config/yamlfile"
)

// reader reads one file.
type reader struct {
	yamlfile.Reader
	top      yamlfile.Position // where the file begins
	given    []yamlfile.Field  // the fields that stand beside the policies, and the policies with policyMark before their names
	chosen   yamlfile.Field    // which policy is the default: it can be looked for when all are known
	compared int               // how many bytes of overrides were held against one another
	named    []namedKey        // all that the file names
	claimed  []claimed         // where it uses claims
	// Of the policy that is being read:
	written    []placedLimits      // its limits and its candidate
	overridden []placedLimits      // the limits of its overrides and plans
	unleased   []yamlfile.Position // where a limit of it says lease: false

	offline bool // nobody connects to the store, so that variables need not be set
}

// mapping returns the fields of a mapping in the order of the file. It reports fields that are given twice, those that
// are not known (unless known is nil, and names are free) and those without a value. What the mapping is belongs to
// errors: "a limit", "the file".
func (r *reader) mapping(node ast.Node, what string, known []string) []yamlfile.Field {
	given, merged := r.Fields(node)
	for _, e := range merged {
		r.Problems.Addf(e.At, "merging with << is not supported; write the fields out, or use an alias for a whole value")
	}
	var fields []yamlfile.Field
	for _, e := range given {
		if known != nil && !slices.Contains(known, e.Name) {
			r.Problems.Add(e.At, wording.Unknown(e.Name, "a field of "+what, known))
			if near, ok := wording.Nearest(e.Name, known); ok {
				fields = append(fields, yamlfile.Field{Name: near, At: e.At}) // so that it is not missed as well
			}
			continue
		}
		if e.Value = r.Resolve(e.Value); e.Value != nil && e.Value.Type() == ast.NullType {
			r.Problems.Addf(e.At, "%s has no value; write one, or leave it out", wording.Quote(e.Name))
			e.Value = nil
		}
		fields = append(fields, e)
	}
	return fields
}

// whole returns the whole number of a field.
func (r *reader) whole(e yamlfile.Field) int64 {
	text, isText, ok := yamlfile.Scalar(e.Value)
	n, isWhole := parseWhole(text)
	switch {
	case !ok:
		r.Problems.Addf(e.ValueAt(), "%s: must be a whole number, not %s", e.Name, yamlfile.NameOf(e.Value))
	case isText && isWhole:
		r.Problems.Addf(e.ValueAt(), "%s: %s is a text; write the number without quotes", e.Name, wording.Quote(text))
	case !isWhole:
		r.Problems.Addf(e.ValueAt(), "%s: %s is not a whole number in plain digits, at most %d",
			e.Name, wording.Quote(text), int64(maxCost))
	}
	return n
}

// namedKey is a key that a file names, which may be an address in a form that no request has. Which form that is stands in another
// part of the file, so that it is checked at the end.
type namedKey struct {
	at       yamlfile.Position
	field    string
	key      string
	template *Template // nil until the policy has been read
}

// checkNamed reports keys that no request has. It does not show them: they may tell who somebody is. An address may be shown, for
// the fix is another way to write it.
func (r *reader) checkNamed(groups clientip.Grouping) {
	for _, named := range r.named {
		if named.template == nil || strings.Contains(named.key, "*") {
			continue
		}
		if key := named.template.Canonical(named.key, groups); key != named.key {
			r.Problems.Addf(named.at, "%s: no request has this key, since addresses are counted in groups; write %s", named.field, wording.Quote(key))
		}
	}
}
