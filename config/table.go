package config

import (
	"slices"

	"github.com/goccy/go-yaml/ast"

	"github.com/slidegate/slidegate/internal/yamlfile"
)

// field is a field of a mapping in a file, whose content goes into a T.
type field[T any] struct {
	name string
	kind string // what to write, for the documentation
	def  string // what applies if it is left out, for the documentation and the schema; empty if it is required, or nothing applies
	help string // what it is for, in one line
	read func(r *reader, to *T, e yamlfile.Field)
	show func(w *formatter, of *T) // writes it for Format, or nothing for its default; nil if another field's does
}

// table has the fields of a mapping, in the order in which the documentation lists them and Format writes them. Tables drive the
// reading of files, the fields that errors suggest, Format, the schema and the documentation, so that none of them lacks a field.
// Struct tags would not do: most fields need a function anyway, and the compiler checks a table.
type table[T any] []field[T]

// names returns the names of the fields.
func (t table[T]) names() []string {
	names := make([]string, len(t))
	for i := range t {
		names[i] = t[i].name
	}
	return names
}

// given has the fields that a mapping in a file has, by their names, including those without a valid value.
type given map[string]yamlfile.Field

// has reports whether the mapping has a field.
func (g given) has(name string) bool {
	_, ok := g[name]
	return ok
}

// read reads a mapping; what names it in errors.
func (t table[T]) read(r *reader, node ast.Node, what string, to *T) given {
	found := given{}
	for _, e := range r.mapping(node, what, t.names()) {
		found[e.Name] = e
		if e.Value != nil {
			t[slices.IndexFunc(t, func(f field[T]) bool { return f.name == e.Name })].read(r, to, e)
		}
	}
	return found
}

// in reads the mapping of a field. If it is none, the error is made from want, a format for what it is instead.
func (t table[T]) in(r *reader, e yamlfile.Field, what, want string, to *T) given {
	if !r.isMapping(e, want) {
		return nil
	}
	return t.read(r, e.Value, what, to)
}

// show writes the mapping for Format. Where a field writes nothing, its default is written as a comment.
func (t table[T]) show(w *formatter, of *T) {
	for _, f := range t {
		if f.show == nil {
			continue
		}
		before := w.lines.Len()
		f.show(w, of)
		if w.lines.Len() == before && f.def != "" {
			w.notef("%s: %s", f.name, f.def)
		}
	}
}
