// Package yamlfile reads YAML that people write, within bounds, and tells them all that is wrong with it, each problem with its
// line and column, and without the passwords of URLs. It goes through the nodes of a document instead of decoding it into a
// struct, because the nodes know where they stand. Which fields there are is for those who use it to say: config and server/envoy.
package yamlfile

import (
	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/token"

	"github.com/slidegate/slidegate/config/wording"
)

// Reader reads one file. It goes on after a problem, so that all of them are reported. The zero value is ready for use, by
// one goroutine.
type Reader struct {
	Problems Problems
	anchors  anchors
	visited  int // how many values were read, those that aliases repeat each time
}

// Visit counts a value, and tells whether the file is still within its bounds. Whoever goes through a list calls it for every
// item, and leaves off when it is false, which was reported.
func (r *Reader) Visit(node ast.Node) bool {
	r.visited++
	if r.visited == maxTokens+1 {
		r.Problems.Addf(PositionOf(node), "aliases make more than %d values of the file; split it", maxTokens)
	}
	return r.visited <= maxTokens
}

// Field is one field of a mapping.
type Field struct {
	Name  string
	At    Position // of the name
	Value ast.Node // nil if there is none that can be used
}

// ValueAt returns where the value begins.
func (f Field) ValueAt() Position { return PositionOf(f.Value) }

// Fields returns the fields of a mapping in the order of the file, and what it merges with <<. Their values may be aliases,
// for Resolve. It reports fields that are given twice.
func (r *Reader) Fields(node ast.Node) (fields, merged []Field) {
	first := map[string]Position{}
	for _, value := range valuesOf(node) {
		if !r.Visit(value) {
			break
		}
		f := Field{At: PositionOf(value), Value: value.Value}
		switch value.Key.(type) {
		case *ast.MergeKeyNode:
			merged = append(merged, f)
			continue
		case *ast.MappingKeyNode, *ast.AliasNode, *ast.AnchorNode, *ast.TagNode:
			r.Problems.Addf(f.At, "a name must stand by itself before its colon, without ?, &, * and !")
			continue
		}
		f.Name = value.Key.GetToken().Value
		if at, twice := first[f.Name]; twice {
			r.Problems.Addf(f.At, "%s is given twice; the first is in line %d", wording.Quote(f.Name), at.Line)
			continue
		}
		first[f.Name] = f.At
		fields = append(fields, f)
	}
	return fields, merged
}

func valuesOf(node ast.Node) []*ast.MappingValueNode {
	switch n := node.(type) {
	case *ast.MappingNode:
		return n.Values
	case *ast.MappingValueNode:
		return []*ast.MappingValueNode{n}
	}
	return nil
}

// Text returns the text of a field; false if it has none, about which it reports unless there is no value at all.
func (r *Reader) Text(f Field) (string, bool) {
	text, _, ok := Scalar(f.Value)
	if !ok && f.Value != nil {
		r.Problems.Addf(f.ValueAt(), "%s: must be a text, not %s", f.Name, NameOf(f.Value))
	}
	return text, ok
}

// Truth returns true or false; false if there is no value.
func (r *Reader) Truth(f Field) bool {
	n, ok := f.Value.(*ast.BoolNode)
	if !ok && f.Value != nil {
		r.Problems.Addf(f.ValueAt(), "%s: must be true or false, not %s", f.Name, NameOf(f.Value))
	}
	return ok && n.Value
}

// Scalar returns the text of a value that is neither a list nor a mapping, as it was written, and whether it is in quotes or
// otherwise a text for certain.
func Scalar(node ast.Node) (text string, isText, ok bool) {
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

// IsMapping tells whether a value has fields.
func IsMapping(node ast.Node) bool {
	return node.Type() == ast.MappingType || node.Type() == ast.MappingValueType
}

// NameOf says what a value is, for errors that say what it should be.
func NameOf(node ast.Node) string {
	switch node.(type) {
	case *ast.MappingNode, *ast.MappingValueNode:
		return "a mapping"
	case *ast.SequenceNode:
		return "a list"
	}
	if text, _, ok := Scalar(node); ok {
		return wording.Quote(text)
	}
	return "nothing"
}
