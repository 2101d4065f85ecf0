package config

import "github.com/goccy/go-yaml/ast"

// anchors are the anchors of a document by name, each name's in the order of the file.
type anchors map[string][]*ast.AnchorNode

// Visit makes a note of an anchor; ast.Walk calls it for every node.
func (a anchors) Visit(node ast.Node) ast.Visitor {
	if anchor, ok := node.(*ast.AnchorNode); ok {
		name := anchor.Name.GetToken().Value
		a[name] = append(a[name], anchor)
	}
	return a
}

// before returns the last anchor of a name before a place.
func (a anchors) before(name string, at position) (found *ast.AnchorNode) {
	for _, anchor := range a[name] {
		if positionOf(anchor).compare(at) < 0 {
			found = anchor
		}
	}
	return found
}

// resolve returns the value itself if node is an anchor or an alias; nil if there is none that can be used, about which
// it reports.
func (r *reader) resolve(node ast.Node) ast.Node {
	at := positionOf(node)
	for range maxDepth {
		switch n := node.(type) {
		case *ast.AnchorNode:
			node = n.Value
		case *ast.AliasNode:
			name := n.Value.GetToken().Value
			anchor := r.anchors.before(name, positionOf(n))
			if anchor == nil {
				r.problems.addf(at, "there is no anchor %s before this alias of it", quote("&"+name))
				return nil
			}
			node = anchor.Value
		case *ast.TagNode:
			r.problems.addf(at, "tags such as %s are not supported; leave it out", quote(n.GetToken().Value))
			return nil
		case nil:
			r.problems.addf(at, "there is no value")
			return nil
		default:
			return node
		}
	}
	r.problems.addf(at, "the alias leads to another, and so on more than %d times", maxDepth)
	return nil
}
