package config

import (
	"slices"

	"github.com/goccy/go-yaml/ast"

	"github.com/slidegate/slidegate/internal/errtext"
	"github.com/slidegate/slidegate/internal/fields"
	"github.com/slidegate/slidegate/internal/yamlfile"
	"github.com/slidegate/slidegate/policy"
)

// reader reads one file.
type reader struct {
	yamlfile.Reader
	name      string            // of the file, in errors and as the start of relative paths
	top       yamlfile.Position // start of the file
	file      *File             // what this and other files contain
	chosen    yamlfile.Field    // default_policy, which is checked when all policies are known
	compared  int               // how many bytes of overrides and plans were compared
	namedKeys []namedKey        // all keys that the file contains
	claimUses []claimUse        // where the file uses claims
	warnings  yamlfile.Problems // what is valid and hardly meant
	exact     []exactPattern
	// State of the policy that is being read:
	written  []positionedLimits  // its limits, and those of its overrides and plans
	unleased []yamlfile.Position // where one of its limits has lease: false
	leaseAt  yamlfile.Position   // where it has lease: true
	costs    []positionedCost    // its costs, also those of its patterns

	thresholds []policy.Threshold // of its limits, and of those of its overrides and plans
	percents   []int              // of the limit that is being read

	overridesFrom *reader   // the file of its overrides
	files         []*reader // all such files
	others        []string  // the paths of files that this one names
	otherBytes    int       // the size of the files of overrides

	opts Options
}

// mapping returns the fields of a mapping in the order of the file. It reports duplicate fields, unknown fields (unless known
// is nil, which accepts any name) and fields without a value. what names the mapping in errors: "a limit", "the file".
func (r *reader) mapping(node ast.Node, what string, known []string) []yamlfile.Field {
	given, merged := r.Fields(node)
	for _, e := range merged {
		r.Problems.Addf(e.At, "merging with << is not supported; write the fields out, or use an alias for a whole value")
	}
	var found []yamlfile.Field
	for _, e := range given {
		if known != nil && !slices.Contains(known, e.Name) {
			r.Problems.Add(e.At, errtext.Unknown(e.Name, "a field of "+what, known))
			if near, ok := errtext.Nearest(e.Name, known); ok {
				found = append(found, yamlfile.Field{Name: near, At: e.At}) // so that it is not reported as missing too
			}
			continue
		}
		if e.Value = r.Resolve(e.Value); e.Value != nil && e.Value.Type() == ast.NullType {
			r.Problems.Addf(e.At, "%s has no value; write one, or leave it out", errtext.Quote(e.Name))
			e.Value = nil
		}
		found = append(found, e)
	}
	return found
}

// isMapping reports whether the value of a field is a mapping. If not, it adds an error made from want, a format for what it is
// instead.
func (r *reader) isMapping(e yamlfile.Field, want string) bool {
	if !yamlfile.IsMapping(e.Value) {
		r.Problems.Addf(e.ValueAt(), want, yamlfile.Describe(e.Value))
		return false
	}
	return true
}

// integer returns the whole number of a field.
func (r *reader) integer(e yamlfile.Field) int64 {
	text, isText, ok := yamlfile.Scalar(e.Value)
	n, isWhole := fields.ParseWhole(text)
	switch {
	case !ok:
		r.Problems.Addf(e.ValueAt(), "%s: must be a whole number, not %s", e.Name, yamlfile.Describe(e.Value))
	case isText && isWhole:
		r.Problems.Addf(e.ValueAt(), "%s: %s is a string; write the number without quotes", e.Name, errtext.Quote(text))
	case !isWhole:
		r.Problems.Addf(e.ValueAt(), "%s: %s is not a whole number in plain digits, at most %d",
			e.Name, errtext.Quote(text), int64(fields.MaxCost))
	}
	return n
}
