package yamlfile

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/goccy/go-yaml/ast"

	"github.com/slidegate/slidegate/internal/errtext"
)

// describe formats what a value is read as: the fields of mappings, the items of lists, and texts, with quotes around those that are
// certainly strings.
func describe(r *Reader, node ast.Node) string {
	if node = r.Resolve(node); node == nil {
		return "?"
	}
	var parts []string
	if IsMapping(node) {
		fields, merged := r.Fields(node)
		for _, f := range fields {
			parts = append(parts, fmt.Sprintf("%d:%d %s=%s", f.At.Line, f.At.Column, f.Name, describe(r, f.Value)))
		}
		for _, f := range merged {
			parts = append(parts, fmt.Sprintf("%d:%d <<=%s", f.At.Line, f.At.Column, describe(r, f.Value)))
		}
		return "{" + strings.Join(parts, ", ") + "}"
	}
	if list, ok := node.(*ast.SequenceNode); ok {
		for _, item := range list.Values {
			if !r.Visit(item) {
				break
			}
			parts = append(parts, describe(r, item))
		}
		return "[" + strings.Join(parts, ", ") + "]"
	}
	text, isText, ok := Scalar(node)
	switch {
	case !ok:
		return Describe(node)
	case isText:
		return errtext.Quote(text)
	}
	return text
}

// read reads a file, and returns its content, or its problems.
func read(r *Reader, text string) string {
	root, at := r.Document([]byte(text), "fill it", "remove it")
	content := ""
	if root != nil {
		content = fmt.Sprintf("%d:%d %s", at.Line, at.Column, describe(r, root))
	}
	if err := r.Problems.Join("f"); err != nil {
		return err.Error()
	}
	return content
}

// aliases returns a list of a value, an alias of it, an alias of that, and so on. The parser requires each on its own line.
func aliases(n int) string {
	text := "- &a0 1\n"
	for i := range n {
		text += fmt.Sprintf("- &a%d\n  *a%d\n", i+1, i)
	}
	return text
}

// manyAliases returns the problems of the aliases from first to last.
func manyAliases(first, last int) string {
	var lines []string
	for i := first; i <= last; i++ {
		lines = append(lines, fmt.Sprintf("f:%d:3: aliases are nested more than 32 deep", 2*i))
	}
	return strings.Join(lines, "\n")
}

func TestRead(t *testing.T) {
	for _, test := range []struct{ text, want string }{
		{"a: 1\nb: [x, 'y', 1.5, true, ~]\n", `1:1 {1:1 a=1, 2:1 b=[x, "y", 1.5, true, nothing]}`},
		{"\ufeff\n  a: |\n    x\n", `2:3 {2:3 a="x\n"}`},
		{"---\nx\n...\n", "2:1 x"},
		{"&r\na: &x {b: 1}\nc: *x\n", "1:1 {2:1 a={2:8 b=1}, 3:1 c={2:8 b=1}}"},
		{"a: &x 1\nb: *x\nc: &x 2\nd: *x\n", "1:1 {1:1 a=1, 2:1 b=1, 3:1 c=2, 4:1 d=2}"}, // the last before the alias
		{"a: &x {b: 1}\nc:\n  <<: *x\n  d: 2\n", "1:1 {1:1 a={1:8 b=1}, 2:1 c={4:3 d=2, 3:3 <<={1:8 b=1}}}"},
		{"'<<': 1\n", "1:1 {1:1 <<=1}"}, // a name like any other

		{"---\n# a\n---\na\n---\n---\n", "4:1 a"}, // empty documents do not count

		{"", "f:1:1: the file is empty; fill it"},
		{"# nothing\n", "f:1:1: the file is empty; fill it"},
		{"%YAML 1.2\n---\n", "f:1:1: the file is empty; fill it"},
		{"a\n---\n# b\nb\n", "f:2:1: a second document begins; remove it"},
		{"a: 1\n...\n# b\nb: 1\n", "f:4:1: a second document begins; remove it"}, // no --- for its position
		{"a\n---\n# b\n---\nb\n", "f:4:1: a second document begins; remove it"},  // the parser would drop it
		{"é: 1\né\xff: 2\n", "f:2:2: the file is not UTF-8"},
		{"a: [", "f:1:4: invalid YAML: sequence end token ']' not found"},
		{"a: 1\nb: 2\na: 3\n", `f:3:1: "a" is given twice; the first is on line 1`},
		{"? a\n: 1\n", "f:1:1: a name must be a plain word before its colon, without ?, &, * and !"},
		{"a: *x\nb: &x 1\n", `f:1:4: no anchor "&x" before this alias`},
		{"a: &a\n  *a\n", "f:1:4: aliases are nested more than 32 deep"}, // to itself, forever
		{aliases(30), "1:1 [" + strings.Repeat("1, ", 30) + "1]"},
		{aliases(40), manyAliases(31, 40)},
		{"a: !!str 1\n", `f:1:4: tags such as "!!str" are not supported; leave it out`},
		{strings.Repeat("#", MaxSize+1), "f:1:1: the file is larger than 8 MB"},
		{strings.Repeat("[", MaxDepth+1), "f:1:33: values are nested more than 32 deep"},
		{"[" + strings.Repeat("a,", maxTokens/2) + "a]", "f:1:500001: the file has more than 500000 words and signs; split it"},
		{"a: &a [" + strings.Repeat("1,", 999) + "1]\nb: [" + strings.Repeat("*a,", 500) + "]\n",
			"f:1:1006: the file has more than 500000 values, with those that aliases repeat; split it"},
	} {
		if got := read(&Reader{}, test.text); got != test.want {
			t.Errorf("%.60q:\ngot  %.300s\nwant %s", test.text, got, test.want)
		}
	}
}

func TestTextAndTruth(t *testing.T) {
	r := &Reader{}
	root, _ := r.Document([]byte("a: 5\nb: true\nc: [x]\nd: {x: y}\ne: 'true'\n"), "", "")
	fields, _ := r.Fields(root)
	got := ""
	for _, f := range append(fields, Field{Name: "none"}) {
		text, ok := r.Text(f)
		got += fmt.Sprintf("%s %q %t %t\n", f.Name, text, ok, r.Bool(f))
	}
	want := `a "5" true false
b "true" true true
c "" false false
d "" false false
e "true" true false
none "" false false
f:1:4: a: must be true or false, not "5"
f:3:4: c: must be a string, not a list
f:3:4: c: must be true or false, not a list
f:4:4: d: must be a string, not a mapping
f:4:4: d: must be true or false, not a mapping
f:5:4: e: must be true or false, not "true"`
	if got += r.Problems.Join("f").Error(); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}

// TestProblemsAreMasked has a URL with a password everywhere that problems quote the file.
func TestProblemsAreMasked(t *testing.T) {
	const address = "redis://u:hunter2@h"
	for _, test := range []struct{ text, want string }{
		{address + ": 1\n" + address + ": 2\n", `f:2:1: "redis://u:***@h" is given twice; the first is on line 1`},
		{"a: *" + address + "\n", `f:1:4: no anchor "&redis://u:***@h" before this alias`},
		{"a: !" + address + " 3\n", `f:1:4: tags such as "!redis://u:***@h" are not supported; leave it out`},
		{"a: | " + address + "\n", `f:1:4: invalid YAML: invalid header option: " redis://u:***@h"`}, // the parser's text
	} {
		if got := read(&Reader{}, test.text); got != test.want {
			t.Errorf("%q:\ngot  %s\nwant %s", test.text, got, test.want)
		}
	}
	root, _ := new(Reader).Document([]byte(address), "", "")
	if got := Describe(root); got != `"redis://u:***@h"` {
		t.Errorf("got %s", got)
	}
}

// Problems are in the order of the file, each once, and not too many to read.
func TestJoin(t *testing.T) {
	var p Problems
	if err := p.Join("f"); err != nil {
		t.Errorf("no problems: got %v, want nil", err)
	}
	wrong := errors.New("wrong")
	for line := MaxProblems + 2; line > 0; line-- {
		p.Add(Position{line, 2}, wrong)
		p.Add(Position{line, 2}, wrong)
	}
	p.Addf(Position{1, 1}, "very %w", wrong)
	err := p.Join("f")
	lines := strings.Split(err.Error(), "\n")
	if len(lines) != MaxProblems+1 || lines[0] != "f:1:1: very wrong" || lines[9] != "f:9:2: wrong" || lines[10] != "f: and 3 more problems" ||
		!errors.Is(err, wrong) {
		t.Errorf("got\n%v\nwant %d lines: the first about 1:1, the tenth about 9:2, the last \"and 3 more problems\"", err, MaxProblems+1)
	}
}
