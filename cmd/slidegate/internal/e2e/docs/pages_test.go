// Package docs checks the pages of this repository: README.md, docs and every other Markdown file. Samples compile and run, the
// program accepts commands and settings, links resolve, and names exist. CONTRIBUTING.md has the rules for pages.
package docs

import (
	"bytes"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/yuin/goldmark"
	"github.com/yuin/goldmark/ast"
	"github.com/yuin/goldmark/extension"
	"github.com/yuin/goldmark/text"
)

// root is the folder of the repository.
const root = "../../../../.."

// A page is a parsed Markdown file.
type page struct {
	path    string // from the root of the repository, with slashes
	source  []byte
	blocks  []block
	links   []link
	spans   []span
	anchors map[string]bool // of its headings
}

// A block is a code block.
type block struct {
	line     int    // of its first line of code
	language string // as given after the fence
	indented bool   // it has no fence
	code     string
	output   *block // the text block that follows a program
}

// A link is the target of a link or an image.
type link struct {
	line   int
	target string
}

// A span is `code` within a sentence.
type span struct {
	line int
	code string
}

// A problem is a mistake on a page.
type problem struct {
	path string
	line int
	text string
}

func (p problem) String() string { return fmt.Sprintf("%s:%d: %s", p.path, p.line, p.text) }

func (p *page) problemf(line int, format string, args ...any) problem {
	return problem{p.path, line, fmt.Sprintf(format, args...)}
}

// report fails the test with each problem, in a format that editors can jump to.
func report(t *testing.T, problems []problem) {
	t.Helper()
	for _, p := range problems {
		t.Error(p)
	}
}

// readPages reads all pages of the repository.
func readPages(t *testing.T) []*page {
	t.Helper()
	var pages []*page
	err := filepath.WalkDir(root, func(file string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if entry.IsDir() {
			if hidden := strings.HasPrefix(entry.Name(), ".") && file != root; hidden || slices.Contains([]string{"node_modules", "testdata", "bin"}, entry.Name()) {
				return filepath.SkipDir
			}
			return nil
		}
		if filepath.Ext(file) == ".md" {
			pages = append(pages, readPage(t, root, file))
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if len(pages) < 20 {
		t.Fatalf("found only %d pages: the test looks in the wrong place", len(pages))
	}
	return pages
}

// readPage reads one page, whose path is reported relative to folder.
func readPage(t *testing.T, folder, file string) *page {
	t.Helper()
	source, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	path, err := filepath.Rel(folder, file)
	if err != nil {
		t.Fatal(err)
	}
	return parsePage(filepath.ToSlash(path), source)
}

func parsePage(path string, source []byte) *page {
	p := &page{path: path, source: source, anchors: map[string]bool{}}
	document := goldmark.New(goldmark.WithExtensions(extension.GFM)).Parser().Parse(text.NewReader(source))
	_ = ast.Walk(document, func(node ast.Node, entering bool) (ast.WalkStatus, error) {
		if entering {
			p.add(node)
		}
		return ast.WalkContinue, nil
	})
	return p
}

// add records the parts of a node that are checked.
func (p *page) add(node ast.Node) {
	switch n := node.(type) {
	case *ast.Heading:
		p.addAnchor(n)
	case *ast.FencedCodeBlock:
		p.addBlock(n, string(n.Language(p.source)), false)
	case *ast.CodeBlock:
		p.addBlock(n, "", true)
	case *ast.Link:
		p.links = append(p.links, link{p.lineOf(n), string(n.Destination)})
	case *ast.Image:
		p.links = append(p.links, link{p.lineOf(n), string(n.Destination)})
	case *ast.CodeSpan:
		p.spans = append(p.spans, span{p.lineOf(n), strings.ReplaceAll(p.textOf(n), "\n", " ")})
	}
	if n, ok := node.(*ast.Paragraph); ok {
		p.addUnresolved(n)
	}
}

// addBlock records a block of code. A text block that follows a Go program, with at most one paragraph between, is its output.
func (p *page) addBlock(node ast.Node, language string, indented bool) {
	lines := node.Lines()
	if lines.Len() == 0 {
		return
	}
	p.blocks = append(p.blocks, block{
		line: p.lineAt(lines.At(0).Start), language: language, indented: indented, code: string(lines.Value(p.source)),
	})
	if language != "text" {
		return
	}
	before := node.PreviousSibling()
	if _, ok := before.(*ast.Paragraph); ok {
		before = before.PreviousSibling()
	}
	if program, ok := before.(*ast.FencedCodeBlock); ok && string(program.Language(p.source)) == "go" {
		output := p.blocks[len(p.blocks)-1]
		p.blocks[len(p.blocks)-2].output = &output
	}
}

// addAnchor records the anchor that GitHub gives a heading. If several are equal, all but the first get a number.
func (p *page) addAnchor(heading ast.Node) {
	anchor := anchorOf(p.textOf(heading))
	unique := anchor
	for i := 1; p.anchors[unique]; i++ {
		unique = fmt.Sprintf("%s-%d", anchor, i)
	}
	p.anchors[unique] = true
}

// addUnresolved records links such as [text][name] whose name is not defined: Markdown takes them for text.
func (p *page) addUnresolved(paragraph ast.Node) {
	var plain strings.Builder
	for child := paragraph.FirstChild(); child != nil; child = child.NextSibling() {
		if t, ok := child.(*ast.Text); ok {
			plain.Write(t.Value(p.source))
		} else {
			plain.WriteByte(' ')
		}
	}
	for _, match := range unresolved.FindAllStringSubmatch(plain.String(), -1) {
		target := "[" + match[1] + "]"
		start := paragraph.Lines().At(0).Start
		p.links = append(p.links, link{p.lineAt(start + max(bytes.Index(p.source[start:], []byte("]"+target)), 0)), target})
	}
}

// textOf returns what a reader sees of a node.
func (p *page) textOf(node ast.Node) string {
	var seen strings.Builder
	_ = ast.Walk(node, func(n ast.Node, entering bool) (ast.WalkStatus, error) {
		if t, ok := n.(*ast.Text); ok && entering {
			seen.Write(t.Value(p.source))
			if t.SoftLineBreak() {
				seen.WriteByte(' ')
			}
		}
		return ast.WalkContinue, nil
	})
	return seen.String()
}

// lineOf returns the line on which a node begins. Inline nodes have a position only in their text.
func (p *page) lineOf(node ast.Node) int {
	start := -1
	_ = ast.Walk(node, func(n ast.Node, entering bool) (ast.WalkStatus, error) {
		if t, ok := n.(*ast.Text); ok && start < 0 {
			start = t.Segment.Start
		}
		return ast.WalkContinue, nil
	})
	for n := node; start < 0 && n != nil; n = n.Parent() {
		if n.Type() == ast.TypeBlock && n.Lines() != nil && n.Lines().Len() > 0 {
			start = n.Lines().At(0).Start
		}
	}
	return p.lineAt(max(start, 0))
}

func (p *page) lineAt(offset int) int { return 1 + bytes.Count(p.source[:offset], []byte("\n")) }
