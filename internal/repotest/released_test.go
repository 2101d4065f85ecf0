package repotest_test

import (
	"encoding/json"
	"fmt"
	"go/ast"
	"go/parser"
	"go/printer"
	"go/token"
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/slidegate/slidegate/internal/testkit"
)

// releasedFolder has what a release has promised, one file each. Tests of the program keep its flags and metrics there.
const releasedFolder = "internal/repotest/released"

// What the packages of all released modules export is what was released, or more.
func TestReleasedAPI(t *testing.T) {
	var lines []string
	files := token.NewFileSet()
	err := filepath.WalkDir(".", func(file string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if entry.IsDir() {
			if slices.Contains([]string{"internal", "cmd", "examples", "deploy", "docs"}, entry.Name()) {
				return filepath.SkipDir
			}
			return enter(file)
		}
		if !strings.HasSuffix(file, ".go") || strings.HasSuffix(file, "_test.go") {
			return nil
		}
		parsed, err := parser.ParseFile(files, file, nil, parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		pkg := path.Join("slidegate", path.Dir(filepath.ToSlash(file)))
		internal := internalTypes(parsed)
		for _, line := range exportedIn(parsed) {
			if !internal.MatchString(line) || strings.Contains(line, " = ") { // an alias has a name that users write
				lines = append(lines, pkg+": "+line)
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	testkit.Released(t, releasedFolder+"/api.txt", slices.Compact(slices.Sorted(slices.Values(lines)))) // files for several systems have the same
}

// internalTypes matches the types of internal packages that a file imports: what has them is for other packages of this repository.
func internalTypes(file *ast.File) *regexp.Regexp {
	names := []string{"none"}
	for _, spec := range file.Imports {
		imported, _ := strconv.Unquote(spec.Path.Value)
		if strings.Contains(imported, module+"/internal/") {
			names = append(names, path.Base(imported))
		}
	}
	return regexp.MustCompile(`\b(` + strings.Join(names, "|") + `)\.[A-Z]`)
}

// exportedIn returns a line for each exported name of a file. An interface is one line, because users may implement it: it cannot grow.
func exportedIn(file *ast.File) (lines []string) {
	ast.Inspect(file, func(n ast.Node) bool {
		if f, ok := n.(*ast.FuncType); ok {
			dropNames(f.Params)
			dropNames(f.Results)
		}
		return true
	})
	for _, declared := range file.Decls {
		switch d := declared.(type) {
		case *ast.FuncDecl:
			lines = append(lines, exportedFunc(d)...)
		case *ast.GenDecl:
			var kind string // of the constants before, which those without a type have
			for _, spec := range d.Specs {
				switch s := spec.(type) {
				case *ast.TypeSpec:
					lines = append(lines, exportedType(s)...)
				case *ast.ValueSpec:
					if s.Type != nil || len(s.Values) > 0 {
						kind = text(s.Type)
					}
					lines = append(lines, exportedValues(d.Tok, s, kind)...)
				}
			}
		}
	}
	return lines
}

// dropNames removes the names of parameters or results.
func dropNames(fields *ast.FieldList) {
	if fields == nil {
		return
	}
	var unnamed []*ast.Field
	for _, f := range fields.List {
		for range max(1, len(f.Names)) {
			unnamed = append(unnamed, &ast.Field{Type: f.Type})
		}
	}
	fields.List = unnamed
}

func exportedFunc(f *ast.FuncDecl) []string {
	if !f.Name.IsExported() {
		return nil
	}
	signature := strings.TrimPrefix(text(f.Type), "func")
	if f.Recv == nil {
		return []string{"func " + f.Name.Name + typeParameters(f.Type.TypeParams) + strings.TrimPrefix(signature, typeParameters(f.Type.TypeParams))}
	}
	receiver := text(f.Recv.List[0].Type)
	if !ast.IsExported(strings.TrimPrefix(receiver, "*")) {
		return nil
	}
	return []string{"func (" + receiver + ") " + f.Name.Name + signature}
}

func typeParameters(of *ast.FieldList) string {
	if of == nil {
		return ""
	}
	var names []string
	for _, f := range of.List {
		for _, name := range f.Names {
			names = append(names, name.Name+" "+text(f.Type))
		}
	}
	return "[" + strings.Join(names, ", ") + "]"
}

func exportedType(s *ast.TypeSpec) (lines []string) {
	if !s.Name.IsExported() {
		return nil
	}
	name := "type " + s.Name.Name + typeParameters(s.TypeParams)
	structure, ok := s.Type.(*ast.StructType)
	switch {
	case s.Assign.IsValid():
		return []string{name + " = " + text(s.Type)}
	case !ok:
		return []string{name + " " + text(s.Type)}
	}
	return append([]string{name + " struct"}, exportedFields(name+" struct", structure)...)
}

// exportedFields returns a line for each field of a struct, and of the structs in it.
func exportedFields(name string, structure *ast.StructType) (lines []string) {
	for _, f := range structure.Fields.List {
		tag, kind := "", ""
		if f.Tag != nil {
			tag = " " + f.Tag.Value
		}
		inner, nested := f.Type.(*ast.StructType)
		if kind = "struct"; !nested {
			kind = text(f.Type)
		}
		for _, field := range f.Names {
			if !field.IsExported() {
				continue
			}
			lines = append(lines, name+", "+field.Name+" "+kind+tag)
			if nested {
				lines = append(lines, exportedFields(name+", "+field.Name, inner)...)
			}
		}
		if embedded := kind[strings.LastIndexAny(kind, "*.")+1:]; len(f.Names) == 0 && ast.IsExported(embedded) {
			lines = append(lines, name+", embeds "+kind+tag)
		}
	}
	return lines
}

func exportedValues(kind token.Token, s *ast.ValueSpec, typed string) (lines []string) {
	for i, name := range s.Names {
		if !name.IsExported() {
			continue
		}
		line := strings.TrimSpace(fmt.Sprintf("%s %s %s", kind, name.Name, typed))
		if kind == token.CONST && i < len(s.Values) {
			if value, literal := s.Values[i].(*ast.BasicLit); literal {
				line += " = " + value.Value
			}
		}
		lines = append(lines, line)
	}
	return lines
}

// text returns an expression on one line.
func text(expression ast.Node) string {
	if e, ok := expression.(ast.Expr); !ok || e == nil {
		return ""
	}
	for n := range ast.Preorder(expression) {
		switch n := n.(type) {
		case *ast.Field:
			n.Doc, n.Comment = nil, nil
		}
	}
	var b strings.Builder
	if err := printer.Fprint(&b, token.NewFileSet(), expression); err != nil {
		panic(err) // it was parsed just now
	}
	return strings.ReplaceAll(strings.Join(strings.Fields(b.String()), " "), "interface { }", "interface{}")
}

// The fields of policy files, with the words that they accept, are those that were released, or more.
func TestReleasedFieldsOfFiles(t *testing.T) {
	testkit.Released(t, releasedFolder+"/files.txt", schemaLines(t, "config/schema.json"))
}

// The paths of the API over HTTP, and the fields of its bodies, are those that were released, or more.
func TestReleasedFieldsOfJSON(t *testing.T) {
	const folder = "cmd/slidegate/internal/listener/jsonapi/"
	lines := append(schemaLines(t, folder+"openapi.json"), schemaLines(t, folder+"others.json")...)
	for _, folder := range []string{"gate", "gate/problemjson", "listener/envoy", "listener/jsonapi", "listener/rulingsapi", "notify", "service"} {
		lines = append(lines, jsonTags(t, "cmd/slidegate/internal/"+folder)...)
	}
	testkit.Released(t, releasedFolder+"/json.txt", slices.Compact(slices.Sorted(slices.Values(lines))))
}

// jsonTags returns a line for each field of a package that has a name in JSON: not all bodies have a schema.
func jsonTags(t *testing.T, folder string) (lines []string) {
	t.Helper()
	files, _ := filepath.Glob(folder + "/*.go")
	for _, file := range files {
		if strings.HasSuffix(file, "_test.go") {
			continue
		}
		parsed, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		for n := range ast.Preorder(parsed) {
			spec, ok := n.(*ast.TypeSpec)
			if !ok {
				continue
			}
			for inner := range ast.Preorder(spec.Type) {
				if field, ok := inner.(*ast.Field); ok && field.Tag != nil && strings.Contains(field.Tag.Value, "json:") {
					lines = append(lines, fmt.Sprintf("%s.%s: %s %s", path.Base(folder), spec.Name.Name, text(field.Type), strings.Trim(field.Tag.Value, "`")))
				}
			}
		}
	}
	return lines
}

// schemaLines returns a line for each field that the JSON schemas of a document define, for each word that a field accepts, and for each
// path of an OpenAPI document.
func schemaLines(t *testing.T, file string) []string {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var document any
	if err := json.Unmarshal(text, &document); err != nil {
		t.Fatal(err)
	}
	lines := map[string]bool{}
	walkSchema(document, "", lines)
	return slices.Sorted(maps.Keys(lines))
}

func walkSchema(part any, at string, lines map[string]bool) {
	switch part := part.(type) {
	case []any:
		for _, one := range part {
			walkSchema(one, at, lines)
		}
	case map[string]any:
		for name, inner := range part {
			switch name {
			case "description", "examples", "example", "summary", "title", "default":
			case "properties":
				for field, schema := range inner.(map[string]any) {
					lines[at+"."+field+typeOf(schema)] = true
					walkSchema(schema, at+"."+field, lines)
				}
			case "$ref":
				lines[at+" as "+fmt.Sprint(inner)] = true
			case "enum":
				for _, word := range inner.([]any) {
					lines[fmt.Sprintf("%s may be %v", at, word)] = true
				}
			case "const":
				lines[fmt.Sprintf("%s may be %v", at, inner)] = true
			case "items":
				walkSchema(inner, at+"[]", lines)
			case "additionalProperties", "patternProperties":
				walkSchema(inner, at+".*", lines)
			case "anyOf", "oneOf", "allOf", "then", "else", "if", "not", "dependentSchemas", "propertyNames":
				if name != "not" && name != "if" {
					walkSchema(inner, at, lines)
				}
			case "schema", "schemas", "$defs", "components", "paths", "content", "responses", "requestBody", "headers", "parameters", "application/json",
				"application/problem+json":
				walkNamed(name, inner, at, lines)
			default:
				if strings.HasPrefix(name, "/") || slices.Contains([]string{"get", "post", "put", "delete"}, name) {
					walkSchema(inner, strings.TrimSpace(at+" "+name), lines)
					lines[strings.TrimSpace(at+" "+name)] = true
				}
			}
		}
	}
}

// walkNamed walks what contains schemas, which have names in it unless there is only one.
func walkNamed(name string, inner any, at string, lines map[string]bool) {
	named, ok := inner.(map[string]any)
	switch name {
	case "schemas", "$defs", "headers":
		for key, schema := range named {
			lines[strings.TrimSpace(at+" "+key)] = true
			walkSchema(schema, strings.TrimSpace(at+" "+key), lines)
		}
	case "responses":
		for status, response := range named {
			lines[at+" answers "+status] = true
			walkSchema(response, at+" answers "+status, lines)
		}
	case "parameters":
		list, _ := inner.([]any)
		for _, one := range list {
			if parameter, ok := one.(map[string]any); ok && parameter["name"] != nil {
				lines[fmt.Sprintf("%s with %v", at, parameter["name"])] = true
			}
		}
	case "requestBody":
		walkSchema(inner, at+" takes", lines)
	default:
		if ok {
			walkSchema(named, at, lines)
		}
	}
}

func typeOf(schema any) string {
	if s, ok := schema.(map[string]any); ok && s["type"] != nil {
		return fmt.Sprintf(" %v", s["type"])
	}
	return ""
}

// docs/versions.md says which test holds each promise, and each of them exists where it says.
func TestVersionsNamesTests(t *testing.T) {
	page, err := os.ReadFile("docs/versions.md")
	if err != nil {
		t.Fatal(err)
	}
	found := 0
	for _, named := range regexp.MustCompile("`(Test\\w+)` in ((?:`[^`]+`(?:, )?)+)").FindAllStringSubmatch(string(page), -1) {
		for _, folder := range regexp.MustCompile("`([^`]+)`").FindAllStringSubmatch(named[2], -1) {
			if strings.HasPrefix(folder[1], "Test") {
				continue // the next one
			}
			files, _ := filepath.Glob(folder[1] + "/*_test.go")
			found++
			if !slices.ContainsFunc(files, func(file string) bool {
				text, err := os.ReadFile(file)
				return err == nil && strings.Contains(string(text), "\nfunc "+named[1]+"(t *testing.T)")
			}) {
				t.Errorf("docs/versions.md: no %s in %s", named[1], folder[1])
			}
		}
	}
	if found < 15 {
		t.Errorf("found only %d tests on the page", found)
	}
}
