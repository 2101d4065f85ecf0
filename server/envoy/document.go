package envoy

import (
	"bytes"
	"errors"
	"unicode/utf8"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/lexer"
	"github.com/goccy/go-yaml/parser"
	"github.com/goccy/go-yaml/token"
)

// MaxSize is how large a file may be, in bytes.
const MaxSize = 1 << 20

// The bounds of a document besides its size: the parser takes time that grows with the square of both. Values that aliases
// repeat count as often as they are repeated.
const (
	maxTokens = 60_000 // words and signs; a descriptor with a limit has about twenty
	maxDepth  = 32     // of brackets, of dashes in a line, and of descriptors within one another
)

// document returns the root of the only document in text; nil if there is none, about which it reports.
func (r *reader) document(text []byte) ast.Node {
	top := position{1, 1}
	text = bytes.TrimPrefix(text, []byte("\ufeff")) // some editors begin a file with it
	switch {
	case len(text) > MaxSize:
		r.problems.addf(top, "the file is larger than %d bytes", MaxSize)
		return nil
	case !utf8.Valid(text):
		r.problems.addf(top, "the file is not UTF-8")
		return nil
	}
	tokens := lexer.Tokenize(string(text))
	if !r.bounded(tokens) {
		return nil
	}
	parsed, err := parser.Parse(tokens, 0, parser.AllowDuplicateMapKey()) // which are found, and placed, by mapping
	if err != nil {
		r.syntax(err)
		return nil
	}
	var root ast.Node
	for _, doc := range parsed.Docs {
		if doc.Body == nil || doc.Body.Type() == ast.DirectiveType {
			continue
		}
		if root != nil {
			r.problems.addf(positionOf(doc.Body), "a second document begins; a file has one domain, so put this into another file")
			return nil
		}
		root = doc.Body
	}
	if root == nil {
		r.problems.addf(top, "the file is empty; write domain: and descriptors:")
	}
	return root
}

// bounded tells whether a document is within the bounds.
func (r *reader) bounded(tokens token.Tokens) bool {
	depth, dashes, line := 0, 0, 0
	for i, t := range tokens {
		switch t.Type {
		case token.SequenceStartType, token.MappingStartType:
			depth++
		case token.SequenceEndType, token.MappingEndType:
			depth--
		case token.SequenceEntryType, token.MappingKeyType:
			if t.Position.Line != line {
				line, dashes = t.Position.Line, 0
			}
			dashes++
		}
		if i == maxTokens {
			r.problems.addf(positionAt(t), "the file has more than %d words and signs; split it", maxTokens)
			return false
		}
		if depth > maxDepth || dashes > maxDepth {
			r.problems.addf(positionAt(t), "values are nested more than %d deep", maxDepth)
			return false
		}
	}
	return true
}

// syntax reports what the parser says.
func (r *reader) syntax(err error) {
	at, text := position{1, 1}, err.Error()
	var detailed yaml.Error
	if errors.As(err, &detailed) {
		text = detailed.GetMessage()
		if t := detailed.GetToken(); t != nil {
			at = positionAt(t)
		}
	}
	r.problems.addf(at, "this is not YAML: %s", text)
}

// positionOf returns where a value begins.
func positionOf(node ast.Node) position {
	switch n := node.(type) {
	case nil:
		return position{1, 1}
	case *ast.MappingNode:
		if !n.IsFlowStyle && len(n.Values) > 0 {
			return positionOf(n.Values[0])
		}
	case *ast.MappingValueNode:
		return positionOf(n.Key)
	}
	return positionAt(node.GetToken())
}

func positionAt(t *token.Token) position {
	if t == nil || t.Position == nil {
		return position{1, 1}
	}
	return position{max(t.Position.Line, 1), max(t.Position.Column, 1)}
}

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

// resolve returns the value itself if node is an anchor or an alias; nil if there is none that can be used, about which it
// reports.
func (r *reader) resolve(node ast.Node) ast.Node {
	at := positionOf(node)
	for range maxDepth {
		switch n := node.(type) {
		case *ast.AnchorNode:
			node = n.Value
		case *ast.AliasNode:
			name := n.Value.GetToken().Value
			var anchor *ast.AnchorNode
			for _, a := range r.anchors[name] {
				if positionOf(a).compare(positionOf(n)) < 0 {
					anchor = a // the last one before the alias
				}
			}
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
