package envoy

import (
	"math"
	"slices"
	"strconv"

	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/token"
)

// reader reads one file. It goes through the nodes of the document, because the nodes know where they stand, and goes on after
// a problem, so that all of them are reported.
type reader struct {
	problems problems
	anchors  anchors
	visited  int // how many values were read, those that aliases repeat each time
	depth    int // how many mappings the reader is in
	charging Charging
}

// field is one field of a mapping.
type field struct {
	name  string
	at    position // of the name
	value ast.Node // nil if it was written without one, or cannot be used, which was reported
}

// mapping returns the fields of a mapping in the order of the file, and then those that it merges with <<. It reports fields
// that are given twice and those that are not known, unless known is nil. What the mapping is belongs to errors.
func (r *reader) mapping(node ast.Node, what string, known []string) []field {
	var fields []field
	first := map[string]position{}
	var merged []ast.Node
	for _, value := range mappingValues(node) {
		if !r.visit(value) {
			break
		}
		f := field{at: positionOf(value)}
		switch key := value.Key.(type) {
		case *ast.MergeKeyNode:
			merged = append(merged, value.Value)
			continue
		case *ast.MappingKeyNode, *ast.AliasNode, *ast.AnchorNode, *ast.TagNode:
			r.problems.addf(f.at, "a name must stand by itself before its colon, without ?, &, * and !")
			continue
		default:
			f.name = key.GetToken().Value
		}
		if at, twice := first[f.name]; twice {
			r.problems.addf(f.at, "%s is given twice; the first is in line %d", quote(f.name), at.line)
			continue
		}
		first[f.name] = f.at
		if known != nil && !slices.Contains(known, f.name) {
			r.problems.addf(f.at, "%s", unknown(f.name, "a field of "+what, known))
			continue
		}
		if f.value = r.resolve(value.Value); f.value != nil && f.value.Type() == ast.NullType {
			f.value = nil
		}
		fields = append(fields, f)
	}
	for _, node := range merged {
		fields = r.merge(fields, first, node, what, known)
	}
	return fields
}

// merge adds the fields of a mapping, or of a list of them, that are not there yet.
func (r *reader) merge(fields []field, have map[string]position, node ast.Node, what string, known []string) []field {
	at := positionOf(node)
	if node = r.resolve(node); node == nil {
		return fields
	}
	if r.depth++; r.depth > maxDepth {
		r.problems.addf(at, "values are nested more than %d deep", maxDepth)
		return fields
	}
	defer func() { r.depth-- }()
	if list, ok := node.(*ast.SequenceNode); ok {
		for _, item := range list.Values {
			if r.visit(item) {
				fields = r.merge(fields, have, item, what, known)
			}
		}
		return fields
	}
	if !isMapping(node) {
		r.problems.addf(at, "<<: must be a mapping, or a list of them, not %s", nameOf(node))
		return fields
	}
	for _, f := range r.mapping(node, what, known) {
		if _, there := have[f.name]; !there {
			have[f.name] = f.at
			fields = append(fields, f)
		}
	}
	return fields
}

func mappingValues(node ast.Node) []*ast.MappingValueNode {
	switch n := node.(type) {
	case *ast.MappingNode:
		return n.Values
	case *ast.MappingValueNode:
		return []*ast.MappingValueNode{n}
	}
	return nil
}

func isMapping(node ast.Node) bool {
	return node.Type() == ast.MappingType || node.Type() == ast.MappingValueType
}

// visit counts a value, and tells whether the file is still within its bounds.
func (r *reader) visit(node ast.Node) bool {
	r.visited++
	if r.visited == maxTokens+1 {
		r.problems.addf(positionOf(node), "aliases make more than %d values of the file; split it", maxTokens)
	}
	return r.visited <= maxTokens
}

// items returns the mappings of a list.
func (r *reader) items(f field) (items []ast.Node) {
	if f.value == nil {
		return nil
	}
	list, ok := f.value.(*ast.SequenceNode)
	if !ok {
		r.problems.addf(positionOf(f.value), "%s: must be a list, not %s", f.name, nameOf(f.value))
		return nil
	}
	for _, item := range list.Values {
		if !r.visit(item) {
			break
		}
		at := positionOf(item)
		node := r.resolve(item)
		switch {
		case node == nil:
		case !isMapping(node):
			r.problems.addf(at, "%s: must be a list of mappings, not of %s", f.name, nameOf(node))
		default:
			items = append(items, node)
		}
	}
	return items
}

// scalar returns the text of a value that is neither a list nor a mapping, as it was written, and whether it is in quotes or
// otherwise a text for certain.
func scalar(node ast.Node) (text string, isText, ok bool) {
	switch n := node.(type) {
	case *ast.StringNode:
		return n.Value, n.Token.Type != token.StringType, true
	case *ast.LiteralNode:
		return n.Value.Value, true, true
	case *ast.IntegerNode, *ast.FloatNode, *ast.BoolNode, *ast.InfinityNode, *ast.NanNode:
		return node.GetToken().Value, false, true
	}
	return "", false, false
}

// nameOf says what a value is, for errors that say what it should be.
func nameOf(node ast.Node) string {
	switch node.(type) {
	case *ast.MappingNode, *ast.MappingValueNode:
		return "a mapping"
	case *ast.SequenceNode:
		return "a list"
	}
	if text, _, ok := scalar(node); ok {
		return quote(text)
	}
	return "nothing"
}

// text returns the text of a field, empty if it has none.
func (r *reader) text(f field) string {
	if f.value == nil {
		return ""
	}
	text, _, ok := scalar(f.value)
	if !ok {
		r.problems.addf(positionOf(f.value), "%s: must be a text, not %s", f.name, nameOf(f.value))
	}
	return text
}

// given reports a field that was written without a value, which cannot be meant.
func (r *reader) given(f field) bool {
	if f.value == nil {
		r.problems.addf(f.at, "%s has no value; write one, or leave it out", quote(f.name))
	}
	return f.value != nil
}

// whole returns the whole number of a field, from least to most.
func (r *reader) whole(f field, least, most int64) int64 {
	if !r.given(f) {
		return least
	}
	text, isText, ok := scalar(f.value)
	n, err := strconv.ParseInt(text, 10, 64)
	if !ok || isText || err != nil || n < least || n > most {
		r.problems.addf(positionOf(f.value), "%s: must be a whole number from %d to %d, not %s", f.name, least, most, nameOf(f.value))
		return least
	}
	return n
}

// truth returns true or false; false if there is no value, as the original has it.
func (r *reader) truth(f field) bool {
	if f.value == nil {
		return false
	}
	n, ok := f.value.(*ast.BoolNode)
	if !ok {
		r.problems.addf(positionOf(f.value), "%s: must be true or false, not %s", f.name, nameOf(f.value))
		return false
	}
	return n.Value
}

// word reads one of several words.
func (r *reader) word(f field, what string, among []string) int {
	if !r.given(f) {
		return 0
	}
	text := r.text(f)
	i := slices.Index(among, text)
	if i < 0 && text != "" {
		r.problems.addf(positionOf(f.value), "%s: %s", f.name, unknown(text, what, among))
	}
	return max(i, 0)
}

const maxUint32 = math.MaxUint32
