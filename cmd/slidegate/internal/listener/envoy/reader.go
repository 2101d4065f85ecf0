package envoy

import (
	"math"
	"slices"

	"github.com/goccy/go-yaml/ast"

	"github.com/slidegate/slidegate/internal/errtext"
	"github.com/slidegate/slidegate/internal/yamlfile"
)

// reader reads one file.
type reader struct {
	yamlfile.Reader
	file     string
	where    map[*node]location
	depth    int // nesting depth of mappings
	charging Charging
}

// mapping returns the fields of a mapping in the order of the file, followed by those that it merges with <<; the value
// of a field written without one is nil. It reports and omits duplicate fields, unknown fields (unless known is nil)
// and fields whose value cannot be used. The argument what names the mapping in errors.
func (r *reader) mapping(node ast.Node, what string, known []string) (fields []yamlfile.Field) {
	given, merged := r.Fields(node)
	have := map[string]bool{}
	for _, f := range given {
		if known != nil && !slices.Contains(known, f.Name) {
			r.Problems.Add(f.At, errtext.Unknown(f.Name, "a field of "+what, known))
			continue
		}
		have[f.Name] = true
		if f.Value = r.Resolve(untag(f.Value)); f.Value == nil {
			continue
		}
		if f.Value.Type() == ast.NullType {
			f.Value = nil
		}
		fields = append(fields, f)
	}
	for _, f := range merged {
		fields = r.merge(fields, have, f.Value, what, known)
	}
	return fields
}

// merge adds the missing fields of a mapping, or of a list of mappings.
func (r *reader) merge(fields []yamlfile.Field, have map[string]bool, node ast.Node, what string, known []string) []yamlfile.Field {
	at := yamlfile.PositionOf(node)
	if node = r.Resolve(node); node == nil {
		return fields
	}
	if r.depth++; r.depth > yamlfile.MaxDepth {
		r.Problems.Addf(at, "values are nested more than %d deep", yamlfile.MaxDepth)
		return fields
	}
	defer func() { r.depth-- }()
	if list, ok := node.(*ast.SequenceNode); ok {
		for _, item := range list.Values {
			if r.Visit(item) {
				fields = r.merge(fields, have, item, what, known)
			}
		}
		return fields
	}
	if !yamlfile.IsMapping(node) {
		r.Problems.Addf(at, "<<: must be a mapping, or a list of them, not %s", yamlfile.Describe(node))
		return fields
	}
	for _, f := range r.mapping(node, what, known) {
		if !have[f.Name] {
			have[f.Name] = true
			fields = append(fields, f)
		}
	}
	return fields
}

// items returns the mappings of a list.
func (r *reader) items(f yamlfile.Field) (items []ast.Node) {
	if f.Value == nil {
		return nil
	}
	list, ok := f.Value.(*ast.SequenceNode)
	if !ok {
		r.Problems.Addf(f.ValueAt(), "%s: must be a list, not %s", f.Name, yamlfile.Describe(f.Value))
		return nil
	}
	for _, item := range list.Values {
		if !r.Visit(item) {
			break
		}
		at := yamlfile.PositionOf(item)
		node := r.Resolve(item)
		switch {
		case node == nil:
		case !yamlfile.IsMapping(node):
			r.Problems.Addf(at, "%s: must be a list of mappings, not of %s", f.Name, yamlfile.Describe(node))
		default:
			items = append(items, node)
		}
	}
	return items
}

// hasValue reports whether a field has a value. If it has none, which cannot be intended, it records a problem.
func (r *reader) hasValue(f yamlfile.Field) bool {
	if f.Value == nil {
		r.Problems.Addf(f.At, "%s has no value; write one, or leave it out", errtext.Quote(f.Name))
	}
	return f.Value != nil
}

// word reads one of several words.
func (r *reader) word(f yamlfile.Field, what string, names []string) int {
	if !r.hasValue(f) {
		return 0
	}
	text, ok := r.Text(f)
	i := slices.Index(names, text)
	if ok && i < 0 {
		r.Problems.Addf(f.ValueAt(), "%s: %w", f.Name, errtext.Unknown(text, what, names))
	}
	return max(i, 0)
}

const maxUint32 = math.MaxUint32
