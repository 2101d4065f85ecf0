package config

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

// The bounds of a document besides its size. The parser takes time and memory that grow with the square of how many
// values a document has and of how deep it is, so both are bounded before it sees them: at these bounds it takes about
// a second at worst. Values that aliases repeat count as often as they are repeated.
const (
	maxTokens = 60_000 // words and signs; a policy of two limits has about ten
	maxDepth  = 32     // brackets within brackets, or dashes in a line
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
		r.problems.addf(firstInvalid(text), "the file is not UTF-8")
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
			at := positionOf(doc.Body)
			if doc.Start != nil {
				at = positionAt(doc.Start)
			}
			r.problems.addf(at, `a second document begins; put all policies into one, and remove this "---"`)
			return nil
		}
		root = doc.Body
	}
	if root == nil {
		r.problems.addf(top, "the file is empty; write policies: and below it at least one policy with limits")
	}
	return root
}

// firstInvalid returns where text stops being UTF-8.
func firstInvalid(text []byte) position {
	at := position{1, 1}
	for len(text) > 0 {
		c, size := utf8.DecodeRune(text)
		switch {
		case c == utf8.RuneError && size == 1:
			return at
		case c == '\n':
			at = position{at.line + 1, 1}
		default:
			at.column++
		}
		text = text[size:]
	}
	return at
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
