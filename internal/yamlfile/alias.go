package yamlfile

import (
	"sort"

	"github.com/goccy/go-yaml/ast"

	"github.com/slidegate/slidegate/internal/errtext"
)

// anchors maps names to the anchors of a document, in the order of the file.
type anchors map[string][]*ast.AnchorNode

// Visit records an anchor; ast.Walk calls it for every node.
func (a anchors) Visit(node ast.Node) ast.Visitor {
	if anchor, ok := node.(*ast.AnchorNode); ok {
		name := anchor.Name.GetToken().Value
		a[name] = append(a[name], anchor)
	}
	return a
}

// before returns the last anchor of a name before a position.
func (a anchors) before(name string, at Position) (found *ast.AnchorNode) {
	after := sort.Search(len(a[name]), func(i int) bool { return PositionOf(a[name][i]).Compare(at) >= 0 })
	if after > 0 {
		found = a[name][after-1]
	}
	return found
}

// Resolve returns the value itself if node is an anchor or an alias; nil if it is invalid, which it reports.
func (r *Reader) Resolve(node ast.Node) ast.Node {
	at := PositionOf(node)
	for range MaxDepth {
		switch n := node.(type) {
		case *ast.AnchorNode:
			node = n.Value
		case *ast.AliasNode:
			name := n.Value.GetToken().Value
			anchor := r.anchors.before(name, PositionOf(n))
			if anchor == nil {
				r.Problems.Addf(at, "no anchor %s before this alias", errtext.Quote("&"+name))
				return nil
			}
			node = anchor.Value
		case *ast.TagNode:
			r.Problems.Addf(at, "tags such as %s are not supported; leave it out", errtext.Quote(n.GetToken().Value))
			return nil
		case nil:
			r.Problems.Addf(at, "no value")
			return nil
		default:
			return node
		}
	}
	r.Problems.Addf(at, "aliases are nested more than %d deep", MaxDepth)
	return nil
}
