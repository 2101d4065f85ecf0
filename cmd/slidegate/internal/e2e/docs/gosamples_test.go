package docs

import (
	"errors"
	"fmt"
	"go/ast"
	"go/importer"
	"go/parser"
	"go/scanner"
	"go/token"
	"go/types"
	"io"
	"maps"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// TestGoSamples checks that every Go block compiles. A block that begins with a package clause is a file. The other blocks of a
// page form, from top to bottom, the body of the function in testdata/prelude.go, which has the imports and variables that they may
// use.
func TestGoSamples(t *testing.T) {
	pages := readPages(t)
	problems, count := checkGo(t, pages)
	report(t, problems)
	t.Logf("%d Go blocks", count)
}

func checkGo(t *testing.T, pages []*page) (problems []problem, count int) {
	t.Helper()
	prelude, err := os.ReadFile("testdata/prelude.go")
	if err != nil {
		t.Fatal(err)
	}
	c := &compiler{files: token.NewFileSet()}
	var sources []source
	for _, p := range pages {
		for _, b := range p.blocks {
			if b.language == "go" {
				count++
			}
		}
		sources = append(sources, sourcesOf(p, string(prelude))...)
	}
	for i := range sources {
		c.parse(&sources[i])
	}
	c.importer = c.exported(t, sources)
	for _, s := range sources {
		c.check(s)
	}
	return c.problems, count
}

// A source is one Go file made from a page.
type source struct {
	page  *page
	text  string
	whole bool      // it is one block, not made of fragments
	file  *ast.File // nil if it cannot be parsed
}

// isFile reports whether a Go block is a complete file.
func isFile(code string) bool {
	_, err := parser.ParseFile(token.NewFileSet(), "", code, parser.PackageClauseOnly)
	return err == nil
}

// isDeclarations reports whether a Go block consists of top-level declarations.
func isDeclarations(code string) bool {
	_, err := parser.ParseFile(token.NewFileSet(), "", "package p\n"+code, 0)
	return err == nil
}

// sourcesOf makes Go files from the Go blocks of a page: one from each block that is a file, and one from all others.
func sourcesOf(p *page, prelude string) (sources []source) {
	var others []block
	for _, b := range p.blocks {
		switch {
		case b.language != "go":
		case isFile(b.code):
			sources = append(sources, source{page: p, text: located(p, b), whole: true})
		default:
			others = append(others, b)
		}
	}
	if others == nil {
		return sources
	}
	return append(sources, source{page: p, text: fileOf(p, prelude, others)})
}

// located returns the code of a block with a line comment, which makes errors refer to the page.
func located(p *page, b block) string {
	return fmt.Sprintf("\n//line %s:%d\n%s\n", p.path, b.line, b.code)
}

// fileOf makes a Go file from fragments and declarations. Each fragment may use and redeclare what the ones before it have declared,
// so they are nested.
func fileOf(p *page, prelude string, blocks []block) string {
	var fragments, declarations strings.Builder
	depth := 0
	for _, b := range blocks {
		if isDeclarations(b.code) {
			declarations.WriteString(located(p, b))
			continue
		}
		fragments.WriteString("{" + located(p, b))
		depth++
	}
	head := strings.TrimSuffix(strings.TrimSpace(prelude), "}")
	return head + fragments.String() + strings.Repeat("}\n", depth+1) + declarations.String()
}

// A compiler checks types. It does not link; TestPrograms does, for programs that are run.
type compiler struct {
	files    *token.FileSet
	importer types.Importer
	problems []problem
}

// errorf records a problem at a position in a source.
func (c *compiler) errorf(p *page, place token.Position, text string) {
	if place.Filename != p.path {
		text = fmt.Sprintf("in testdata/prelude.go:%d: %s", place.Line, text)
		place.Line = 1
	}
	c.problems = append(c.problems, p.problemf(place.Line, "%s", text))
}

func (c *compiler) parse(s *source) {
	file, err := parser.ParseFile(c.files, "prelude.go", s.text, parser.SkipObjectResolution)
	if err == nil {
		s.file = file
		return
	}
	var wrong scanner.ErrorList
	if errors.As(err, &wrong) {
		c.errorf(s.page, wrong[0].Pos, wrong[0].Msg)
	}
}

// check checks the types of a source. Fragments may have unused variables and imports.
func (c *compiler) check(s source) {
	if s.file == nil {
		return
	}
	config := types.Config{Importer: c.importer, Error: func(err error) {
		var wrong types.Error
		if errors.As(err, &wrong) && (s.whole || !wrong.Soft) {
			c.errorf(s.page, c.files.Position(wrong.Pos), wrong.Msg)
		}
	}}
	_, _ = config.Check(s.page.path, c.files, []*ast.File{s.file}, nil)
	for _, spec := range s.file.Imports {
		if s.whole && strings.Contains(spec.Path.Value, "/internal/") {
			c.errorf(s.page, c.files.Position(spec.Pos()), "users cannot import "+spec.Path.Value)
		}
	}
}

// exported returns an importer of all packages that the sources import.
func (c *compiler) exported(t *testing.T, sources []source) types.Importer {
	t.Helper()
	imported := map[string]bool{}
	for _, s := range sources {
		if s.file == nil {
			continue
		}
		for _, spec := range s.file.Imports {
			if path, err := strconv.Unquote(spec.Path.Value); err == nil {
				imported[path] = true
			}
		}
	}
	return importerOf(t, c.files, slices.Sorted(maps.Keys(imported)))
}

// importerOf returns an importer of packages that reads the export data of the go command. Any module of the workspace may provide
// them.
func importerOf(t *testing.T, files *token.FileSet, packages []string) types.Importer {
	t.Helper()
	args := append([]string{"list", "-e", "-export", "-deps", "-f", "{{.ImportPath}} {{.Export}}"}, packages...)
	list := exec.Command("go", args...)
	list.Stderr = os.Stderr
	out, err := list.Output()
	if err != nil {
		t.Fatalf("go list: %v", err)
	}
	compiled := map[string]string{}
	for line := range strings.Lines(string(out)) {
		path, file, _ := strings.Cut(strings.TrimSpace(line), " ")
		compiled[path] = file
	}
	return importer.ForCompiler(files, "gc", func(path string) (io.ReadCloser, error) {
		if compiled[path] == "" {
			return nil, fmt.Errorf("no package %s, or it does not compile", path)
		}
		return os.Open(compiled[path])
	})
}
