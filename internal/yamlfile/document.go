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

	"github.com/slidegate/slidegate/internal/errtext"
)

// Bounds of a file, which are checked before it is parsed: at these it takes a few seconds and half a gigabyte at worst. A list of
// 20,000 overrides has a tenth of the bytes and half of the words. Values that aliases repeat count each time. The parser's time and
// memory grow with the square of the number of fields of a mapping, so that these have a bound of their own.
const (
	MaxSize   = 8 << 20     // in bytes
	MaxDepth  = 32          // nested brackets, dashes on a line, and anything else that can be nested
	maxTokens = 500_000     // words and signs; a policy of two limits has about ten
	maxFields = 100_000_000 // the sum of the squares of the numbers of fields of mappings: one of 10,000, say
)

// Read returns the text of a file; of a file that is too large, just enough to detect that.
func Read(path string) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return io.ReadAll(io.LimitReader(f, MaxSize+1))
}

// Files returns the files that paths name: the paths themselves, and for folders the files in them whose names end in .yaml or
// .yml, in the order of their names, except hidden ones, which Kubernetes creates. A folder without any is an fs.PathError,
// which is returned along with the other files.
func Files(paths ...string) (files []string, err error) {
	for _, path := range paths {
		entries, notFolder := os.ReadDir(path)
		if notFolder != nil {
			files = append(files, path) // reading it will report the error
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

// Document returns the only document in text, and its position; nil if it is invalid, which it reports. empty and second are
// the fixes for an empty file and for a second document, to use in errors.
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

// parse returns the documents in text; false if it is invalid, which it reports.
func (r *Reader) parse(text []byte) ([]*ast.DocumentNode, bool) {
	text = bytes.TrimPrefix(text, []byte("\ufeff")) // some editors write it
	switch {
	case len(text) > MaxSize:
		r.Problems.Addf(top, "the file is larger than %d MB", MaxSize>>20)
		return nil, false
	case !utf8.Valid(text):
		r.Problems.Addf(firstInvalid(text), "the file is not UTF-8")
		return nil, false
	}
	if countSigns(text) > 4*maxTokens {
		r.Problems.Addf(top, "the file has more than %d words and signs; split it", maxTokens)
		return nil, false
	}
	tokens := lexer.Tokenize(string(text))
	if !r.withinBounds(tokens) {
		return nil, false
	}
	parsed, err := parser.Parse(withoutEmpty(tokens), 0, parser.AllowDuplicateMapKey()) // Fields reports duplicates, with their positions
	if err != nil {
		r.addSyntaxError(err)
		return nil, false
	}
	return parsed.Docs, true
}

// countSigns counts what may separate words, to reject a file with far too many of them before they take up memory.
func countSigns(text []byte) (n int) {
	for _, c := range text {
		if strings.IndexByte("[]{},:-?&*!", c) >= 0 {
			n++
		}
	}
	return n
}

// firstInvalid returns the position at which text stops being UTF-8.
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

// withoutEmpty removes every --- that is followed by another, and comments, which may be between them: the parser would treat
// these empty documents as the end of the file.
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

// withinBounds reports whether a document is within the bounds.
func (r *Reader) withinBounds(tokens token.Tokens) bool {
	depth, dashes, line := 0, 0, 0
	var open mappings
	for i, t := range tokens {
		switch t.Type {
		case token.SequenceStartType, token.MappingStartType:
			depth++
		case token.SequenceEndType, token.MappingEndType:
			depth--
		case token.MappingValueType:
			if i > 0 && depth == 0 {
				open.add(tokens[i-1].Position.Column)
			}
		case token.SequenceEntryType, token.MappingKeyType:
			open.end(t.Position.Column)
			if t.Position.Line != line {
				line, dashes = t.Position.Line, 0
			}
			dashes++
		}
		if i == maxTokens {
			r.Problems.Addf(positionAt(t), "the file has more than %d words and signs; split it", maxTokens)
			return false
		}
		if open.squares > maxFields {
			r.Problems.Addf(positionAt(t), "the file has mappings of more than 10000 fields; split it")
			return false
		}
		if depth > MaxDepth || dashes > MaxDepth {
			r.Problems.Addf(positionAt(t), "values are nested more than %d deep", MaxDepth)
			return false
		}
	}
	return true
}

// mappings counts the fields of the mappings that are open at a position, which differ in their columns.
type mappings struct {
	columns, fields []int // of each, the outermost first
	squares         int   // the sum of the squares of the numbers of fields, also of mappings that have ended
}

// end ends the mappings to the right of a column.
func (m *mappings) end(column int) {
	for n := len(m.columns); n > 0 && m.columns[n-1] > column; n-- {
		m.columns, m.fields = m.columns[:n-1], m.fields[:n-1]
	}
}

// add adds a field whose name is in a column.
func (m *mappings) add(column int) {
	m.end(column)
	last := len(m.columns) - 1
	if last < 0 || m.columns[last] < column {
		m.columns, m.fields = append(m.columns, column), append(m.fields, 0)
		last++
	}
	m.squares += 2*m.fields[last] + 1
	m.fields[last]++
}

// addSyntaxError reports an error of the parser, which may quote the file.
func (r *Reader) addSyntaxError(err error) {
	at, text := top, err.Error()
	var detailed yaml.Error
	if errors.As(err, &detailed) {
		text = detailed.GetMessage()
		if t := detailed.GetToken(); t != nil {
			at = positionAt(t)
		}
	}
	r.Problems.Addf(at, "invalid YAML: %s", errtext.Mask(text))
}
