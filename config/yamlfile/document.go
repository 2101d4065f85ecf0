package yamlfile

import (
	"bytes"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/lexer"
	"github.com/goccy/go-yaml/parser"
	"github.com/goccy/go-yaml/token"

	"github.com/slidegate/slidegate/config/wording"
)

// The bounds of a file. The parser takes time and memory that grow with the square of how many values a document has and of
// how deep it is, so both are bounded before it sees them: at these bounds it takes about a second at worst. Values that
// aliases repeat count as often as they are repeated.
const (
	MaxSize   = 1 << 20 // in bytes
	MaxDepth  = 32      // brackets within brackets, dashes in a line, and whatever else can be nested
	maxTokens = 60_000  // words and signs; a policy of two limits has about ten
)

// Read returns the text of a file, or as much of a larger one as shows that it is too large.
func Read(path string) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return io.ReadAll(io.LimitReader(f, MaxSize+1))
}

// Files returns the files that paths name: themselves, and of folders those that end in .yaml or .yml, in the order of their names, but for
// hidden ones, of which Kubernetes makes some. A folder without any is an fs.PathError, beside which the others are returned.
func Files(paths ...string) (files []string, err error) {
	for _, path := range paths {
		entries, notFolder := os.ReadDir(path)
		if notFolder != nil {
			files = append(files, path) // reading it says what is wrong with it
			continue
		}
		before := len(files)
		for _, entry := range entries {
			if name := entry.Name(); !strings.HasPrefix(name, ".") && slices.Contains([]string{".yaml", ".yml"}, filepath.Ext(name)) {
				files = append(files, filepath.Join(path, name))
			}
		}
		if len(files) == before {
			err = errors.Join(err, &fs.PathError{Op: "read", Path: path, Err: errors.New("the folder has no file that ends in .yaml or .yml")})
		}
	}
	return files, err
}

// Document returns the only document in text, and where it begins; nil if there is none that can be used, about which it
// reports. What is to be done about a file that is empty, and about a second document, is for the caller to say.
func (r *Reader) Document(text []byte, empty, second string) (root ast.Node, at Position) {
	docs, ok := r.parse(text)
	if !ok {
		return nil, top
	}
	for _, doc := range docs {
		switch {
		case doc.Body == nil || doc.Body.Type() == ast.DirectiveType:
		case root != nil:
			r.Problems.Addf(PositionOf(doc), "a second document begins; %s", second)
			return nil, top
		default:
			root = doc.Body
		}
	}
	if root == nil {
		r.Problems.Addf(top, "the file is empty; %s", empty)
		return nil, top
	}
	r.anchors = anchors{}
	ast.Walk(r.anchors, root)
	return r.Resolve(root), PositionOf(root)
}

// parse returns the documents in text; false if it cannot be read, about which it reports.
func (r *Reader) parse(text []byte) ([]*ast.DocumentNode, bool) {
	text = bytes.TrimPrefix(text, []byte("\ufeff")) // some editors begin a file with it
	switch {
	case len(text) > MaxSize:
		r.Problems.Addf(top, "the file is larger than %d bytes", MaxSize)
		return nil, false
	case !utf8.Valid(text):
		r.Problems.Addf(firstInvalid(text), "the file is not UTF-8")
		return nil, false
	}
	tokens := lexer.Tokenize(string(text))
	if !r.bounded(tokens) {
		return nil, false
	}
	parsed, err := parser.Parse(withoutEmpty(tokens), 0, parser.AllowDuplicateMapKey()) // which are found, and placed, by Fields
	if err != nil {
		r.syntax(err)
		return nil, false
	}
	return parsed.Docs, true
}

// firstInvalid returns where text stops being UTF-8.
func firstInvalid(text []byte) Position {
	at := top
	for len(text) > 0 {
		c, size := utf8.DecodeRune(text)
		switch {
		case c == utf8.RuneError && size == 1:
			return at
		case c == '\n':
			at = Position{at.Line + 1, 1}
		default:
			at.Column++
		}
		text = text[size:]
	}
	return at
}

// withoutEmpty leaves out every --- that another follows, and comments, which may stand between them: the parser would take
// these documents, of which nothing is read, for the end of the file.
func withoutEmpty(tokens token.Tokens) token.Tokens {
	kept := make(token.Tokens, 0, len(tokens))
	for _, t := range tokens {
		if t.Type == token.CommentType {
			continue
		}
		if last := len(kept) - 1; last >= 0 && t.Type == token.DocumentHeaderType && kept[last].Type == t.Type {
			kept = kept[:last]
		}
		kept = append(kept, t)
	}
	return kept
}

// bounded tells whether a document is within the bounds.
func (r *Reader) bounded(tokens token.Tokens) bool {
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
			r.Problems.Addf(positionAt(t), "the file has more than %d words and signs; split it", maxTokens)
			return false
		}
		if depth > MaxDepth || dashes > MaxDepth {
			r.Problems.Addf(positionAt(t), "values are nested more than %d deep", MaxDepth)
			return false
		}
	}
	return true
}

// syntax reports what the parser says, which may quote the file.
func (r *Reader) syntax(err error) {
	at, text := top, err.Error()
	var detailed yaml.Error
	if errors.As(err, &detailed) {
		text = detailed.GetMessage()
		if t := detailed.GetToken(); t != nil {
			at = positionAt(t)
		}
	}
	r.Problems.Addf(at, "this is not YAML: %s", wording.Mask(text))
}
