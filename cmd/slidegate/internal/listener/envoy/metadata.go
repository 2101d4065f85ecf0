package envoy

import (
	"github.com/goccy/go-yaml/ast"
	"google.golang.org/protobuf/types/known/structpb"

	"github.com/slidegate/slidegate/internal/yamlfile"
)

// metadata reads the metadata that a rule reports to Envoy while it is under its limit; nil if none.
func (r *reader) metadata(f yamlfile.Field) *structpb.Struct {
	if f.Value == nil {
		return nil
	}
	if !yamlfile.IsMapping(f.Value) {
		r.Problems.Addf(f.ValueAt(), "metadata: must be a mapping, not %s", yamlfile.Describe(f.Value))
		return nil
	}
	return r.anyValue(f.Value).GetStructValue()
}

// anyValue reads a value of any kind.
func (r *reader) anyValue(node ast.Node) *structpb.Value {
	at := yamlfile.PositionOf(node)
	if node = r.Resolve(untag(node)); node == nil {
		return structpb.NewNullValue()
	}
	if r.depth++; r.depth > yamlfile.MaxDepth {
		r.Problems.Addf(at, "values are nested more than %d deep", yamlfile.MaxDepth)
		return structpb.NewNullValue()
	}
	defer func() { r.depth-- }()
	switch n := node.(type) {
	case *ast.MappingNode, *ast.MappingValueNode:
		fields := map[string]*structpb.Value{}
		for _, f := range r.mapping(node, "metadata", nil) {
			fields[f.Name] = structpb.NewNullValue()
			if f.Value != nil {
				fields[f.Name] = r.anyValue(f.Value)
			}
		}
		return structpb.NewStructValue(&structpb.Struct{Fields: fields})
	case *ast.SequenceNode:
		list := &structpb.ListValue{}
		for _, item := range n.Values {
			if r.Visit(item) {
				list.Values = append(list.Values, r.anyValue(item))
			}
		}
		return structpb.NewListValue(list)
	case *ast.NullNode:
		return structpb.NewNullValue()
	case *ast.IntegerNode, *ast.FloatNode:
		text := node.GetToken().Value
		if ambiguous(text) {
			r.refuseAmbiguous("metadata", node)
		} else if n, ok := number(text); ok {
			return structpb.NewNumberValue(n)
		}
	}
	if is, ok := booleanOf(node); ok {
		return structpb.NewBoolValue(is)
	}
	text, _, ok := yamlfile.Scalar(node)
	if !ok {
		r.Problems.Addf(at, "metadata: this kind of value is not supported")
	}
	return structpb.NewStringValue(text)
}
