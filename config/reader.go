package config

import (
	"slices"

	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/token"
)

// reader reads one file. It goes through the nodes of the document instead of decoding it into a struct, because the
// nodes know where they stand, and goes on after a problem, so that all of them are reported.
type reader struct {
	problems problems
	anchors  anchors
	visited  int // how many values were read, those that aliases repeat each time
	compared int // how many bytes of overrides were held against one another
}

// entry is one field of a mapping.
type entry struct {
	name  string
	at    position // of the name
	value ast.Node // nil if it cannot be used, which was reported
}

// mapping returns the fields of a mapping in the order of the file. It reports fields that are given twice, those that
// are not known (unless known is nil, and names are free) and those without a value. What the mapping is belongs to
// errors: "a limit", "the file".
func (r *reader) mapping(node ast.Node, what string, known []string) []entry {
	var values []*ast.MappingValueNode
	switch n := node.(type) {
	case *ast.MappingNode:
		values = n.Values
	case *ast.MappingValueNode:
		values = []*ast.MappingValueNode{n}
	}
	var entries []entry
	first := map[string]position{}
	for _, value := range values {
		if !r.visit(value) {
			break
		}
		e := entry{at: positionOf(value)}
		var ok bool
		if e.name, ok = r.name(value.Key, e.at); !ok {
			continue
		}
		if at, twice := first[e.name]; twice {
			r.problems.addf(e.at, "%s is given twice; the first is in line %d", quote(e.name), at.line)
			continue
		}
		first[e.name] = e.at
		if known != nil && !slices.Contains(known, e.name) {
			r.problems.add(e.at, unknown(e.name, "a field of "+what, known))
			if near, ok := Nearest(e.name, known); ok {
				entries = append(entries, entry{name: near, at: e.at}) // so that it is not missed as well
			}
			continue
		}
		if e.value = r.resolve(value.Value); e.value != nil && e.value.Type() == ast.NullType {
			r.problems.addf(e.at, "%s has no value; write one, or leave it out", quote(e.name))
			e.value = nil
		}
		entries = append(entries, e)
	}
	return entries
}

// name returns the name of a field.
func (r *reader) name(key ast.MapKeyNode, at position) (string, bool) {
	switch key.(type) {
	case *ast.MergeKeyNode:
		r.problems.addf(at, "merging with << is not supported; write the fields out, or use an alias for a whole value")
		return "", false
	case *ast.MappingKeyNode, *ast.AliasNode, *ast.AnchorNode, *ast.TagNode:
		r.problems.addf(at, "a name must stand by itself before its colon, without ?, &, * and !")
		return "", false
	}
	return key.GetToken().Value, true
}

// visit counts a value, and tells whether the file is still within its bounds.
func (r *reader) visit(node ast.Node) bool {
	r.visited++
	if r.visited == maxTokens+1 {
		r.problems.addf(positionOf(node), "aliases make more than %d values of the file; split it", maxTokens)
	}
	return r.visited <= maxTokens
}

// scalar returns the text of a value that is neither a list nor a mapping, as it was written, and whether it is in
// quotes or otherwise a text for certain.
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

// text returns the text of a field.
func (r *reader) text(e entry) (string, bool) {
	text, _, ok := scalar(e.value)
	if !ok {
		r.problems.addf(positionOf(e.value), "%s: must be a text, not %s", e.name, nameOf(e.value))
	}
	return text, ok
}

// whole returns the whole number of a field.
func (r *reader) whole(e entry) int64 {
	text, isText, ok := scalar(e.value)
	n, isWhole := parseWhole(text)
	switch {
	case !ok:
		r.problems.addf(positionOf(e.value), "%s: must be a whole number, not %s", e.name, nameOf(e.value))
	case isText && isWhole:
		r.problems.addf(positionOf(e.value), "%s: %s is a text; write the number without quotes", e.name, quote(text))
	case !isWhole:
		r.problems.addf(positionOf(e.value), "%s: %s is not a whole number in plain digits, at most %d",
			e.name, quote(text), int64(maxCost))
	}
	return n
}

// truth returns true or false.
func (r *reader) truth(e entry) bool {
	n, ok := e.value.(*ast.BoolNode)
	if !ok {
		r.problems.addf(positionOf(e.value), "%s: must be true or false, not %s", e.name, nameOf(e.value))
		return false
	}
	return n.Value
}
