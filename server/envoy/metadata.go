package envoy

import (
	"strconv"

	"github.com/goccy/go-yaml/ast"
	"google.golang.org/protobuf/types/known/structpb"
)

// metadata reads what a rule tells Envoy of itself while it is under its limit; nil if nothing.
func (r *reader) metadata(f field) *structpb.Struct {
	if f.value == nil {
		return nil
	}
	if !isMapping(f.value) {
		r.problems.addf(positionOf(f.value), "metadata: must be a mapping, not %s", nameOf(f.value))
		return nil
	}
	return r.freely(f.value).GetStructValue()
}

// freely reads a value of any kind.
func (r *reader) freely(node ast.Node) *structpb.Value {
	at := positionOf(node)
	if node = r.resolve(node); node == nil {
		return structpb.NewNullValue()
	}
	if r.depth++; r.depth > maxDepth {
		r.problems.addf(at, "values are nested more than %d deep", maxDepth)
		return structpb.NewNullValue()
	}
	defer func() { r.depth-- }()
	switch n := node.(type) {
	case *ast.MappingNode, *ast.MappingValueNode:
		fields := map[string]*structpb.Value{}
		for _, f := range r.mapping(node, "metadata", nil) {
			fields[f.name] = structpb.NewNullValue()
			if f.value != nil {
				fields[f.name] = r.freely(f.value)
			}
		}
		return structpb.NewStructValue(&structpb.Struct{Fields: fields})
	case *ast.SequenceNode:
		list := &structpb.ListValue{}
		for _, item := range n.Values {
			if r.visit(item) {
				list.Values = append(list.Values, r.freely(item))
			}
		}
		return structpb.NewListValue(list)
	case *ast.NullNode:
		return structpb.NewNullValue()
	case *ast.BoolNode:
		return structpb.NewBoolValue(n.Value)
	case *ast.IntegerNode, *ast.FloatNode:
		if number, err := strconv.ParseFloat(node.GetToken().Value, 64); err == nil {
			return structpb.NewNumberValue(number)
		}
	}
	text, _, ok := scalar(node)
	if !ok {
		r.problems.addf(at, "metadata: this kind of value is not supported")
	}
	return structpb.NewStringValue(text)
}
