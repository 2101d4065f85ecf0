package docs

import (
	"context"
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"go/types"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/slidegate/slidegate/cmd/slidegate/internal/testkit"
)

// TestFragments runs the Go blocks that are not files, each as a function with the parameters of testdata/prelude.go. A block that
// does not compile by itself is run after the blocks before it. The arguments use real servers, and so do the addresses in the
// code. No error may be returned, and what a block declares must work: testdata/harness.go says how that is checked.
func TestFragments(t *testing.T) {
	t.Parallel()
	problems, count := checkFragments(t, readPages(t))
	report(t, problems)
	t.Logf("%d functions", count)
}

func checkFragments(t *testing.T, pages []*page) (problems []problem, count int) {
	t.Helper()
	c := newFragments(t)
	var functions []*function
	for _, p := range pages {
		functions = append(functions, c.functionsOf(p)...)
	}
	program := c.build(t, functions)
	var samples []sample
	for i, f := range functions {
		samples = append(samples, sample{f.page, f.blocks[0].line, func(t *testing.T) string { return f.run(t, program, i) }})
	}
	return runSamples(t, samples), len(samples)
}

// fragments makes functions from fragments.
type fragments struct {
	prelude  string
	files    *token.FileSet
	importer types.Importer
}

func newFragments(t *testing.T) *fragments {
	t.Helper()
	prelude, err := os.ReadFile("testdata/prelude.go")
	testkit.NoError(t, err)
	c := &fragments{prelude: string(prelude), files: token.NewFileSet()}
	file, err := parser.ParseFile(c.files, "prelude.go", prelude, parser.ImportsOnly)
	testkit.NoError(t, err)
	var packages []string
	for _, spec := range file.Imports {
		imported, err := strconv.Unquote(spec.Path.Value)
		testkit.NoError(t, err)
		packages = append(packages, imported)
	}
	c.importer = importerOf(t, c.files, packages)
	return c
}

// A function is made from one or more fragments of a page, and the declarations of the page.
type function struct {
	page   *page
	blocks []block
	text   string
	file   *ast.File
	info   *types.Info
}

// functionsOf returns the functions of a page. Fragments that do not compile are left out: TestGoSamples reports them.
func (c *fragments) functionsOf(p *page) (functions []*function) {
	var declarations, before []block
	for _, b := range p.blocks {
		if b.language == "go" && !isFile(b.code) && isDeclarations(b.code) {
			declarations = append(declarations, b)
		}
	}
	for _, b := range p.blocks {
		if b.language != "go" || isFile(b.code) || isDeclarations(b.code) {
			continue
		}
		if alone := c.compile(p, []block{b}, declarations); alone != nil {
			functions, before = append(functions, alone), alone.blocks
			continue
		}
		if joined := c.compile(p, append(slices.Clone(before), b), declarations); joined != nil && len(before) > 0 {
			functions[len(functions)-1], before = joined, joined.blocks
		}
	}
	return functions
}

// compile returns a function, or nil if it does not compile. Unused variables and imports are allowed.
func (c *fragments) compile(p *page, blocks, declarations []block) *function {
	f := &function{page: p, blocks: blocks, text: fileOf(p, c.prelude, slices.Concat(blocks, declarations))}
	var err error
	if f.file, err = parser.ParseFile(c.files, "prelude.go", f.text, parser.SkipObjectResolution); err != nil {
		return nil
	}
	compiles := true
	config := types.Config{Importer: c.importer, Error: func(err error) {
		if wrong, ok := errors.AsType[types.Error](err); ok && !wrong.Soft {
			compiles = false
		}
	}}
	f.info = &types.Info{Defs: map[*ast.Ident]types.Object{}, Uses: map[*ast.Ident]types.Object{}, Implicits: map[ast.Node]types.Object{}}
	_, _ = config.Check(p.path, c.files, []*ast.File{f.file}, f.info)
	if !compiles {
		return nil
	}
	return f
}

// build builds a test program with a test per function.
func (c *fragments) build(t *testing.T, functions []*function) (program string) {
	t.Helper()
	dir := t.TempDir()
	harness, err := os.ReadFile("testdata/harness.go")
	testkit.NoError(t, err)
	program = filepath.Join(dir, "samples")
	args := []string{"test", "-c", "-vet=off", "-ldflags=-w", "-o", program}
	write := func(name, text string) {
		file := filepath.Join(dir, name)
		testkit.NoError(t, os.WriteFile(file, []byte(text), 0o600))
		args = append(args, file)
	}
	write("harness_test.go", string(harness))
	for i, f := range functions {
		write(fmt.Sprintf("sample%d_test.go", i), c.testOf(f, i))
	}
	if out, err := exec.CommandContext(t.Context(), "go", args...).CombinedOutput(); err != nil {
		t.Fatalf("the fragments do not build: %v\n%s", err, out)
	}
	return program
}

// testOf returns a Go file with a function and the test that runs it.
func (c *fragments) testOf(f *function, number int) string {
	edits, _ := addressEdits(c.files, f.file, "address(%q)")
	edits = append(edits, c.importEdits(f)...)
	for _, declaration := range f.file.Decls {
		if d, ok := declaration.(*ast.FuncDecl); ok && d.Name.Name == "sample" {
			edits = append(edits, edit{c.offset(d.Name.Pos()), len("sample"), fmt.Sprintf("sample%d", number)})
			edits = append(edits, c.checkEdits(f, d.Body, len(f.blocks))...)
		}
	}
	runner := "run"
	if f.uses("w") && f.uses("r") {
		runner = "runHandler"
	}
	return apply(f.text, edits) + fmt.Sprintf("\nfunc TestSample%d(t *testing.T) { %s(t, %q, sample%[1]d) }\n", number, runner, f.page.path)
}

func (c *fragments) offset(at token.Pos) int { return c.files.PositionFor(at, false).Offset }

// importEdits removes the imports that the function does not use.
func (c *fragments) importEdits(f *function) (edits []edit) {
	used := map[types.Object]bool{}
	for _, object := range f.info.Uses {
		used[object] = true
	}
	for _, spec := range f.file.Imports {
		if !used[f.info.Implicits[spec]] {
			edits = append(edits, edit{c.offset(spec.Pos()), len(spec.Path.Value), ""})
		}
	}
	return edits
}

// checkEdits adds checks to nested fragments: of each error after the statement that assigns it, and of the other variables at the
// end of the fragment that declares them. The block of the outermost one is the only statement of the body.
func (c *fragments) checkEdits(f *function, body *ast.BlockStmt, depth int) (edits []edit) {
	inner := body.List[len(body.List)-1].(*ast.BlockStmt)
	statements, end := inner.List, inner.Rbrace
	if depth > 1 { // the last statement is the next fragment
		statements = statements[:len(statements)-1]
		edits = c.checkEdits(f, inner, depth-1)
		end = inner.List[len(inner.List)-1].Pos()
	}
	var atEnd strings.Builder
	for _, statement := range statements {
		for _, name := range assigned(statement) {
			switch object := f.objectOf(name); {
			case object == nil:
			case types.Identical(object.Type(), types.Universe.Lookup("error").Type()):
				edits = append(edits, edit{c.offset(statement.End()), 0, fmt.Sprintf("; check(t, %s)", name.Name)})
			case f.info.Defs[name] != nil:
				fmt.Fprintf(&atEnd, "used(t, %q, %s); ", name.Name, name.Name)
			}
		}
		edits = append(edits, c.listenEdits(statement)...)
	}
	return append(edits, edit{c.offset(end), 0, atEnd.String()})
}

// assigned returns the variables that a statement declares or assigns.
func assigned(statement ast.Stmt) (names []*ast.Ident) {
	switch s := statement.(type) {
	case *ast.AssignStmt:
		for _, left := range s.Lhs {
			if name, ok := left.(*ast.Ident); ok && name.Name != "_" {
				names = append(names, name)
			}
		}
	case *ast.DeclStmt:
		if d, ok := s.Decl.(*ast.GenDecl); ok && d.Tok == token.VAR {
			for _, spec := range d.Specs {
				names = append(names, spec.(*ast.ValueSpec).Names...)
			}
		}
	}
	return names
}

// listenEdits makes a statement that listens serve in the background, and checks what it serves.
func (c *fragments) listenEdits(statement ast.Stmt) []edit {
	s, ok := statement.(*ast.ExprStmt)
	if !ok {
		return nil
	}
	call, ok := s.X.(*ast.CallExpr)
	if !ok || !isListen(call) {
		return nil
	}
	return []edit{{c.offset(call.Pos()), c.offset(call.Lparen) + 1 - c.offset(call.Pos()), "listenAndServe(t, "}}
}

func (f *function) objectOf(name *ast.Ident) types.Object {
	if object := f.info.Defs[name]; object != nil {
		return object
	}
	return f.info.Uses[name]
}

// uses reports whether the fragments use a parameter of the function.
func (f *function) uses(parameter string) bool {
	var declared types.Object
	for name, object := range f.info.Defs {
		if name.Name == parameter && object != nil && (declared == nil || object.Pos() < declared.Pos()) {
			declared = object // parameters come before other variables
		}
	}
	for _, object := range f.info.Uses {
		if object == declared {
			return true
		}
	}
	return false
}

// run runs the test of a function, with servers of its own, and returns the problem with it, or "".
func (f *function) run(t *testing.T, program string, number int) string {
	_, variables := addressEdits(token.NewFileSet(), f.file, "%s")
	if slices.ContainsFunc([]string{"store", "shared", "limiter", "limits"}, f.uses) && !slices.Contains(variables, redisVariable) {
		variables = append(variables, redisVariable)
	}
	return attempt(t, func() string { return f.runOnce(t, program, number, variables) })
}

func (f *function) runOnce(t *testing.T, program string, number int, variables []string) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 2*testkit.Patience)
	defer cancel()
	cmd := exec.CommandContext(ctx, program, "-test.run", fmt.Sprintf("^TestSample%d$", number), "-test.timeout", testkit.Patience.String())
	cmd.Dir = t.TempDir()
	cmd.Env = append(environment(t, variables), listenVariable+"="+testkit.FreeAddress(t), "SAMPLE_TOKEN="+sampleToken)
	testkit.NoError(t, os.WriteFile(filepath.Join(cmd.Dir, "slidegate.yaml"), []byte("policies:\n  api:\n    limits: [100/1m]\n"), 0o600))
	out, err := cmd.CombinedOutput()
	if err != nil {
		return fmt.Sprintf("the sample fails: %v\n%s", err, out)
	}
	if strings.Contains(string(out), ": false\n") {
		return fmt.Sprintf("the sample prints that something is false:\n%s", out)
	}
	return ""
}
