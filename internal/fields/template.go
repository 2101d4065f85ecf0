package fields

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/slidegate/slidegate/internal/errtext"
)

// Template makes the key of a request out of its fields. The zero value has no fields, makes empty keys, and stands for a
// template that was not given; use ParseTemplate for all others. A Template does not change and is safe for concurrent use.
//
// Two requests have the same key only if all the fields of the template are the same in both; see AppendKey. A template made by
// FirstOf has alternatives, which apply if fields by which clients name themselves are missing.
type Template struct {
	fields   []Field
	literals []string // the text before each field, and after the last one
	encoded  byteSet  // bytes that are percent-encoded in values; empty if there is only one field
	missing  string   // replaces a missing value

	others []Template // alternatives if a field of this one is missing, in order
	mark   string     // prefix of keys if this is one of the others

	implied bool // no key was given
}

// ParseTemplate reads a template: a single field (address, header:X-Api-Key), or a text with fields in braces ("{user} {path}",
// "tenant/{header:X-Tenant}"). The fields are address, user, method, path, query, host, status, key, header:NAME, claim:NAME
// and field:PATH; {{ and }} stand for braces.
//
// Two fields must be separated by text, so that it is clear where one ends and the other begins. The text must not begin with
// "%", which marks the encoded bytes of a value.
func ParseTemplate(text string) (Template, error) {
	t, err := parseTemplate(text)
	if err != nil {
		return Template{}, err
	}
	return t, nil
}

func parseTemplate(text string) (t Template, err error) {
	if text == "" {
		return t, errors.New("the template is empty; write a field, such as {address}")
	}
	if !strings.ContainsAny(text, "{}") {
		field, err := Parse(text)
		t.fields, t.literals = []Field{field}, []string{"", ""}
		return t.complete(), err
	}
	var literal strings.Builder
	for text != "" {
		end := strings.IndexAny(text, "{}")
		if end < 0 {
			end = len(text)
		}
		literal.WriteString(text[:end])
		text = text[end:]
		if strings.HasPrefix(text, "{{") || strings.HasPrefix(text, "}}") {
			literal.WriteByte(text[0])
			text = text[2:]
			continue
		}
		if text == "" {
			break
		}
		inside, rest, closed := strings.Cut(text[1:], "}")
		if text[0] == '}' || !closed || strings.Contains(inside, "{") {
			return t, fmt.Errorf("unpaired brace at %s; write {{ or }} for a literal one", errtext.Quote(text))
		}
		field, err := Parse(inside)
		if err != nil {
			return t, err
		}
		t.literals = append(t.literals, literal.String())
		t.fields = append(t.fields, field)
		literal.Reset()
		text = rest
	}
	t.literals = append(t.literals, literal.String())
	return t.complete(), t.check()
}

// check rejects templates whose keys would not distinguish requests.
func (t *Template) check() error {
	if len(t.fields) == 0 {
		return errors.New("the template has no field, so all requests would have the same key; " +
			"write one in braces, such as {address}")
	}
	for i, field := range t.fields[1:] {
		before, between := t.fields[i], t.literals[i+1]
		if between == "" {
			return fmt.Errorf("{%s} and {%s} are not separated, so different requests could have the same key; "+
				"write {%s} {%s}", before, field, before, field)
		}
		if between[0] == '%' {
			return fmt.Errorf("the text after {%s} begins with %%, which marks encoded bytes; "+
				"begin it with something else, such as a space", before)
		}
	}
	return nil
}

// complete computes what AppendKey needs.
func (t Template) complete() Template {
	t.missing = missing
	if len(t.fields) < 2 {
		return t
	}
	t.encoded.add('%')
	for _, between := range t.literals[1:len(t.fields)] {
		if between == "" {
			continue // reported by check
		}
		t.encoded.add(between[0])
		if between[0] == missing[0] {
			t.missing = "%" + missing
		}
	}
	return t
}

// Fields returns the fields of the template in the order in which they appear, followed by those of its alternatives.
func (t Template) Fields() []Field {
	fields := slices.Clone(t.fields)
	for _, other := range t.others {
		fields = append(fields, other.fields...)
	}
	return fields
}

// IsZero reports whether t is the zero value, which is not a template.
func (t Template) IsZero() bool { return len(t.fields) == 0 }

// String returns t as ParseTemplate reads it, with braces around a field even if it stands alone; "" for the zero value. For a
// template made by FirstOf it returns all alternatives, separated by commas, for people to read.
func (t Template) String() string {
	if t.IsZero() {
		return ""
	}
	if len(t.others) > 0 {
		var texts []string
		for _, one := range t.Alternatives() {
			texts = append(texts, one.String())
		}
		return strings.Join(texts, ", ")
	}
	var b strings.Builder
	double := strings.NewReplacer("{", "{{", "}", "}}")
	for i, field := range t.fields {
		fmt.Fprintf(&b, "%s{%s}", double.Replace(t.literals[i]), field)
	}
	return b.String() + double.Replace(t.literals[len(t.fields)])
}

// Default is the key of a policy without one: the address. Its Form differs; see there.
var Default = Template{fields: []Field{{Kind: Address}}, literals: []string{"", ""}, missing: missing, implied: true}

// IsDefault reports whether t is Default, and not a template that was given.
func (t Template) IsDefault() bool { return t.implied }
