// Package yamlfile reads YAML that people write, within bounds, and reports all problems, each with its line and column, and
// without the passwords of URLs. It walks the nodes of a document instead of decoding it into a struct, because only the nodes
// have positions. The fields are defined by its users, config and server/envoy.
package yamlfile

import (
	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/token"

	"github.com/slidegate/slidegate/internal/errtext"
)

// Reader reads one file. It continues after a problem, so that all problems are reported. The zero value is ready to use. It is
// not safe for concurrent use.
type Reader struct {
	Problems Problems
	anchors  anchors
	visited  int // how many values were read, with repetitions by aliases
}

// Visit counts a value, and reports whether the file is still within its bounds. Callers that walk a list call it for every
// item, and stop when it is false, which is already reported.
func (r *Reader) Visit(node ast.Node) bool {
	r.visited++
	if r.visited == maxTokens+1 {
		r.Problems.Addf(PositionOf(node), "the file has more than %d values, with those that aliases repeat; split it", maxTokens)
	}
	return r.visited <= maxTokens
}

// Field is one field of a mapping.
type Field struct {
	Name  string
	At    Position // of the name
	Value ast.Node // nil if it is missing or invalid
}

// ValueAt returns where the value begins.
func (f Field) ValueAt() Position { return PositionOf(f.Value) }

// Fields returns the fields of a mapping in the order of the file, and those merged with <<. Their values may be aliases, for
// Resolve. It reports duplicate fields.
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
			r.Problems.Addf(f.At, "a name must be a plain word before its colon, without ?, &, * and !")
			continue
		}
		f.Name = value.Key.GetToken().Value
		if at, twice := first[f.Name]; twice {
			r.Problems.Addf(f.At, "%s is given twice; the first is on line %d", errtext.Quote(f.Name), at.Line)
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

// Text returns the text of a field; false if it has none, which it reports unless there is no value at all.
func (r *Reader) Text(f Field) (string, bool) {
	text, _, ok := Scalar(f.Value)
	if !ok && f.Value != nil {
		r.Problems.Addf(f.ValueAt(), "%s: must be a string, not %s", f.Name, Describe(f.Value))
	}
	return text, ok
}

// Bool returns a boolean; false if there is no value.
func (r *Reader) Bool(f Field) bool {
	n, ok := f.Value.(*ast.BoolNode)
	if !ok && f.Value != nil {
		r.Problems.Addf(f.ValueAt(), "%s: must be true or false, not %s", f.Name, Describe(f.Value))
	}
	return ok && n.Value
}

// Scalar returns the text of a value that is neither a list nor a mapping, as written, and whether it is certainly a string,
// such as one in quotes.
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

// IsMapping reports whether a value is a mapping.
func IsMapping(node ast.Node) bool {
	return node.Type() == ast.MappingType || node.Type() == ast.MappingValueType
}

// Describe describes a value, for errors that say what it should be.
func Describe(node ast.Node) string {
	switch node.(type) {
	case *ast.MappingNode, *ast.MappingValueNode:
		return "a mapping"
	case *ast.SequenceNode:
		return "a list"
	}
	if text, _, ok := Scalar(node); ok {
		return errtext.Quote(text)
	}
	return "nothing"
}
