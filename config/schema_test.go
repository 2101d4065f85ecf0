package config

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "write schema.json and the tables of docs/config.md from the tables of the package")

// described is what the schema and the documentation say about a field.
type described struct{ name, kind, def, help string }

func describe[T any](t table[T]) (all []described) {
	for _, f := range t {
		all = append(all, described{f.name, f.kind, f.def, f.help})
	}
	return all
}

// mappings are all mappings of a file: their names in the documentation, where the schema has their fields, and these.
var mappings = []struct {
	name   string
	path   []string
	fields []described
}{
	{"file", nil, describe(fileTable)},
	{"address_groups", []string{"properties", "address_groups"}, describe(groupTable)},
	{"jwt", []string{"properties", "jwt"}, describe(jwtTable)},
	{"envoy", []string{"properties", "envoy"}, describe(envoyTable)},
	{"xds", []string{"properties", "envoy", "properties", "xds"}, describe(xdsTable)},
	{"refusal", []string{"$defs", "refusal"}, describe(refusalTable)},
	{"policy", []string{"$defs", "policy"}, describe(policyTable)},
	{"match", []string{"$defs", "route"}, describe(routeTable)},
	{"override", []string{"$defs", "override"}, describe(overrideTable)},
	{"plan", []string{"$defs", "plan"}, describe(planTable)},
	{"limit", []string{"$defs", "limit", "anyOf", "1"}, describe(limitTable)},
}

// typeOf returns the type that the schema has for a kind; empty if there are several.
func typeOf(kind string) string {
	switch words := strings.Fields(kind); {
	case kind == boolean:
		return "boolean"
	case kind == "a whole number", words[0] == "1":
		return "integer"
	case strings.HasPrefix(kind, "a list"):
		return "array"
	case strings.HasPrefix(kind, "a mapping"):
		return "object"
	case strings.Contains(kind, " or ") || strings.Contains(kind, "as for"):
		return ""
	}
	return "string"
}

// The schema has the fields of the tables, with their descriptions and defaults. Types and patterns are written by hand.
func TestSchema(t *testing.T) {
	var document any
	d := json.NewDecoder(bytes.NewReader(schema))
	if document = decodeOrdered(t, d); document == nil {
		t.Fatal("no schema")
	}
	for _, m := range mappings {
		at := document
		for _, step := range m.path {
			at = child(t, at, step)
		}
		properties, ok := child(t, at, "properties").(*object)
		if !ok {
			t.Fatalf("%s: the schema has no properties", m.name)
		}
		if *update {
			properties.describe(m.fields)
			continue
		}
		var names []string
		for _, f := range m.fields {
			names = append(names, f.name)
			property, ok := properties.values[f.name].(*object)
			if !ok {
				t.Errorf("%s: %s is not in the schema", m.name, f.name)
				continue
			}
			if got, want := property.values["description"], f.description(property); got != want {
				t.Errorf("%s: %s: got the description %q, want %q", m.name, f.name, got, want)
			}
			def, ok := property.values["default"]
			if ok && fmt.Sprint(def) != f.def {
				t.Errorf("%s: %s: got the default %v, want %s", m.name, f.name, def, f.def)
			}
			if !ok && f.def != "" && f.def != "none" && !strings.Contains(f.def, " ") {
				t.Errorf("%s: %s: the schema has no default, want %s", m.name, f.name, f.def)
			}
			got, one := property.values["type"].(string)
			if some, ok := property.values["anyOf"].([]any); ok { // the first is the usual one
				got, one = some[0].(*object).values["type"].(string)
			}
			if one && typeOf(f.kind) != "" && got != typeOf(f.kind) {
				t.Errorf("%s: %s: got the type %s, want %s for %s", m.name, f.name, got, typeOf(f.kind), f.kind)
			}
		}
		if !slices.Equal(properties.names, names) {
			t.Errorf("%s: got %q in the schema, want %q, in this order", m.name, properties.names, names)
		}
	}
	if *update {
		text, err := json.MarshalIndent(document, "", "  ")
		if err == nil {
			text = bytes.NewBuffer(bytes.ReplaceAll(bytes.ReplaceAll(bytes.ReplaceAll(text, []byte(`\u0026`), []byte("&")), []byte(`\u003c`), []byte("<")), []byte(`\u003e`), []byte(">"))).Bytes()
			err = os.WriteFile("schema.json", append(text, '\n'), 0o644)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	if t.Failed() {
		t.Log("run go test -run 'Schema|DocsTables' -update, and write the types of new fields into schema.json")
	}
}

// description returns what an editor shows: also a default that the schema cannot express.
func (f described) description(property *object) string {
	if _, expressed := property.values["default"]; expressed || f.def == "" || f.def == "none" {
		return f.help
	}
	return f.help + " Default: " + f.def + "."
}

// describe puts the properties into the order of the fields, with their descriptions. A new one has no type yet.
func (o *object) describe(fields []described) {
	var names []string
	for _, f := range fields {
		property, ok := o.values[f.name].(*object)
		if !ok {
			property = &object{names: []string{"type"}, values: map[string]any{"type": typeOf(f.kind)}}
			if f.kind == boolean {
				property.names, property.values["default"] = append(property.names, "default"), f.def == "true"
			}
			o.values[f.name] = property
		}
		if _, has := property.values["description"]; !has {
			property.names = append([]string{"description"}, property.names...)
		}
		property.values["description"] = f.description(property)
		names = append(names, f.name)
	}
	o.names = names
}

// child returns a member of an object, or an element of an array.
func child(t *testing.T, of any, step string) any {
	t.Helper()
	switch of := of.(type) {
	case *object:
		if value, ok := of.values[step]; ok {
			return value
		}
	case []any:
		return of[int(step[0]-'0')]
	}
	t.Fatalf("the schema has no %s", step)
	return nil
}

// object is a JSON object that keeps the order of its members.
type object struct {
	names  []string
	values map[string]any
}

// MarshalJSON writes the members in order.
func (o *object) MarshalJSON() ([]byte, error) {
	var b strings.Builder
	b.WriteByte('{')
	for i, name := range o.names {
		if i > 0 {
			b.WriteByte(',')
		}
		key, _ := json.Marshal(name)
		value, err := json.Marshal(o.values[name])
		if err != nil {
			return nil, err
		}
		fmt.Fprintf(&b, "%s:%s", key, value)
	}
	b.WriteByte('}')
	return []byte(b.String()), nil
}

// decodeOrdered decodes a value, with objects that keep their order.
func decodeOrdered(t *testing.T, d *json.Decoder) any {
	t.Helper()
	d.UseNumber()
	token, err := d.Token()
	if err != nil {
		t.Fatal(err)
	}
	switch token {
	case json.Delim('{'):
		o := &object{values: map[string]any{}}
		for d.More() {
			name, _ := d.Token()
			o.names = append(o.names, name.(string))
			o.values[name.(string)] = decodeOrdered(t, d)
		}
		_, _ = d.Token()
		return o
	case json.Delim('['):
		list := []any{}
		for d.More() {
			list = append(list, decodeOrdered(t, d))
		}
		_, _ = d.Token()
		return list
	}
	return token
}

func TestSchemaIsACopy(t *testing.T) {
	Schema()[0] = 'x'
	if Schema()[0] != '{' {
		t.Error("changing the returned schema changes the package's")
	}
}

// The tables of the documentation are those of the package.
func TestDocsTables(t *testing.T) {
	const path = "../docs/config.md"
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	page := string(text)
	for _, m := range mappings {
		begin, end := "<!-- fields of "+m.name+" -->\n", "<!-- end -->"
		before, rest, ok := strings.Cut(page, begin)
		got, after, closed := strings.Cut(rest, end)
		if !ok || !closed {
			t.Errorf("%s has no %q with %q after it", path, strings.TrimSpace(begin), end)
			continue
		}
		var want strings.Builder
		want.WriteString("| field | what to write | default | |\n|---|---|---|---|\n")
		for _, f := range m.fields {
			def := f.def
			if def != "" && !strings.Contains(def, " ") && def != "none" || strings.HasPrefix(def, "{") {
				def = "`" + def + "`"
			}
			fmt.Fprintf(&want, "| `%s` | %s | %s | %s |\n", f.name, f.kind, def, f.help)
		}
		switch {
		case *update:
			page = before + begin + want.String() + end + after
		case got != want.String():
			t.Errorf("%s: the table of %s is not that of the package; run go test -run DocsTables -update\ngot\n%swant\n%s", path, m.name, got, want.String())
		}
	}
	if *update {
		if err := os.WriteFile(path, []byte(page), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}
