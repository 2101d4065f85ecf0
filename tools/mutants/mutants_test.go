package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestMutantsCanBePlanted fails when the source has changed where a mutant is planted: move the mutant, or delete it with what it was about.
func TestMutantsCanBePlanted(t *testing.T) {
	mutants, err := readAll("planted")
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range mutants {
		if _, err := m.mutated("../.."); err != nil {
			t.Error(err)
		}
	}
}

func TestMutated(t *testing.T) {
	root := t.TempDir()
	source := "func f(a, b int) bool {\n\treturn a < b || a == b\n}\n"
	if err := os.WriteFile(filepath.Join(root, "f.go"), []byte(source), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct {
		find, with string
		want       string // the line that the mutant has
		err        string // part of the error
	}{
		{find: `a < b`, with: "a > b", want: "\treturn a > b || a == b"},
		{find: ` \|\| a == b`, want: "\treturn a < b"},
		{find: `(\w) < (\w)`, with: "$2 < ${1}", want: "\treturn b < a || a == b"},
		{find: `\Q|| a\E`, with: "&&\n\t\ta", want: "\treturn a < b &&\n\t\ta == b"},
		{find: `b\b`, with: "c", err: "matches 3 times"},
		{find: `a > b`, with: "a", err: "matches 0 times"},
		{find: `a < (b)`, with: "a < $1", err: "changes nothing"},
		{find: `a (`, with: "a", err: "missing closing"},
	} {
		m := mutant{name: "area/name", file: "f.go", find: test.find, with: test.with}
		got, err := m.mutated(root)
		switch {
		case test.err != "":
			if err == nil || !strings.Contains(err.Error(), test.err) || !strings.Contains(err.Error(), m.name) {
				t.Errorf("%s: got error %v, want the name of the mutant and %q", test.find, err, test.err)
			}
		case err != nil:
			t.Error(err)
		case string(got) != "func f(a, b int) bool {\n"+test.want+"\n}\n":
			t.Errorf("%s: got\n%s\nwant the line %s", test.find, got, test.want)
		}
	}
	if _, err := (mutant{name: "area/name", file: "g.go", find: "a"}).mutated(root); err == nil {
		t.Error("a mutant of a file that does not exist can be planted")
	}
}

func TestRead(t *testing.T) {
	mutants, err := read("area", `# about the area
== first
promise: docs/a.md: it: holds
file: a.go
find: a
	b
with: 	c
		d
test: ./a
test: ./b -run B

== second
promise: p
file: b.go
find: \x20c
test: ./b
`)
	if err != nil {
		t.Fatal(err)
	}
	if len(mutants) != 2 {
		t.Fatalf("got %d mutants, want 2", len(mutants))
	}
	first, second := mutants[0], mutants[1]
	if first.name != "area/first" || first.promise != "docs/a.md: it: holds" || first.file != "a.go" || first.find != "a\nb" || first.with != "\tc\n\td" ||
		strings.Join(first.tests, ";") != "./a;./b -run B" {
		t.Errorf("got %+v", first)
	}
	if second.name != "area/second" || second.find != `\x20c` || second.with != "" {
		t.Errorf("got %+v", second)
	}

	complete := "== a\npromise: p\nfile: f\nfind: x\ntest: ./a\n"
	for text, want := range map[string]string{
		complete + complete:                       "stands there twice",
		"== a\nfile: f\nfind: x\ntest: ./a\n":     "needs a promise",
		"== a\npromise: p\nfile: f\nfind: x\n":    "needs a promise, a file, find, and a test",
		complete + "replace: y\n":                 "unknown field",
		"promise: p\n":                            "line 1",
		"== a\n\tcontinues nothing\npromise: p\n": "line 2",
		"== a\npromise: p\nfile: f\ntest: ./a\n":  "needs a promise, a file, find",
	} {
		if _, err := read("area", text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got error %v, want %q, for\n%s", err, want, text)
		}
	}
}
