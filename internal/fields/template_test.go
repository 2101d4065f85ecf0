package fields

import (
	"fmt"
	"reflect"
	"testing"
)

const fieldList = "(want one of address, user, method, path, query, host, status, key, header:NAME, field:PATH, claim:NAME)"

func mustTemplate(t *testing.T, text string) Template {
	t.Helper()
	template, err := ParseTemplate(text)
	if err != nil {
		t.Fatal(err)
	}
	return template
}

func TestParseTemplate(t *testing.T) {
	field := func(kind Kind) Field { return Field{Kind: kind} }
	tests := []struct {
		text   string
		back   string
		fields []Field
	}{
		{"address", "{address}", []Field{field(Address)}},
		{"{address}", "{address}", []Field{field(Address)}},
		{"header:x-api-key", "{header:X-Api-Key}", []Field{{Header, "X-Api-Key"}}},
		{"field:user.id", "{field:user.id}", []Field{{JSON, "user.id"}}},
		{`field:a\.b.c\\`, `{field:a\.b.c\\}`, []Field{{JSON, `a\.b.c\\`}}},
		{`field:a\..b`, `{field:a\..b}`, []Field{{JSON, `a\..b`}}},
		{"{user} {path}", "{user} {path}", []Field{field(User), field(Path)}},
		{"tenant/{header:X-Tenant}", "tenant/{header:X-Tenant}", []Field{{Header, "X-Tenant"}}},
		{"{method}:{host}?{query}#{status}/{key}!", "{method}:{host}?{query}#{status}/{key}!",
			[]Field{field(Method), field(Host), field(Query), field(Status), field(Key)}},
		{"{{{user}}}", "{{{user}}}", []Field{field(User)}},
		{"}}{{{user}", "}}{{{user}", []Field{field(User)}},
		{"{user} {user}", "{user} {user}", []Field{field(User), field(User)}},
		{"%{user}%", "%{user}%", []Field{field(User)}}, // it matters only between fields
	}
	for _, test := range tests {
		template, err := ParseTemplate(test.text)
		if err != nil {
			t.Errorf("%s is rejected: %v", test.text, err)
			continue
		}
		if !reflect.DeepEqual(template.Fields(), test.fields) {
			t.Errorf("%s: got fields %v, want %v", test.text, template.Fields(), test.fields)
		}
		text := template.String()
		if text != test.back || template.IsZero() {
			t.Errorf("%s: got text %q, want %q", test.text, text, test.back)
		}
		if again := mustTemplate(t, text); !reflect.DeepEqual(again, template) {
			t.Errorf("%s: got %+v from its own text, want %+v", text, again, template)
		}
	}
}

func TestParseTemplateRejects(t *testing.T) {
	tests := []struct{ text, want string }{
		{"", "the template is empty; write a field, such as {address}"},
		{"adress", `"adress" is not a field; did you mean "address"? ` + fieldList},
		{"{usr} {path}", `"usr" is not a field; did you mean "user"? ` + fieldList},
		{"{user} {addr}", `"addr" is not a field; did you mean "address"? ` + fieldList},
		{"haeder:X-Key", `"haeder" is not a field; did you mean "header"? ` + fieldList},
		{"{}", `"" is not a field ` + fieldList},
		{"bytes", `"bytes" is not a field ` + fieldList},
		{"global", `"global" is not a field ` + fieldList},
		{"user:x", `the field user takes no name, as in "user:x"`},
		{"header", "header: needs a name, such as header:X-Api-Key"},
		{"{header:}", "header: needs a name, such as header:X-Api-Key"},
		{"header:X Key", `"X Key" is not a valid header name: it must not contain " "`},
		{"field", "field: needs a path, such as field:user.id"},
		{"field:.a", `the path ".a" has an empty name; separate names by one dot, such as user.id`},
		{"field:a.", `the path "a." has an empty name; separate names by one dot, such as user.id`},
		{`field:a\`, `the path "a\\" ends in a backslash; write two for a literal one`},
		{"all{{}}", "the template has no field, so all requests would have the same key; write one in braces, such as {address}"},
		{"{user", `unpaired brace at "{user"; write {{ or }} for a literal one`},
		{"a {us{er}", `unpaired brace at "{us{er}"; write {{ or }} for a literal one`},
		{"user}", `unpaired brace at "}"; write {{ or }} for a literal one`},
		{"{user}{path}", "{user} and {path} are not separated, so different requests could have the same key; write {user} {path}"},
		{"{user}%{path}", "the text after {user} begins with %, which marks encoded bytes; begin it with something else, such as a space"},
	}
	for _, test := range tests {
		template, err := ParseTemplate(test.text)
		if err == nil || err.Error() != test.want {
			t.Errorf("%s: got %v\nwant %s", test.text, err, test.want)
		}
		if !template.IsZero() {
			t.Errorf("%s: got a template with the error, want the zero value", test.text)
		}
	}
}

func TestZeroTemplate(t *testing.T) {
	var zero Template
	if !zero.IsZero() || zero.String() != "" || zero.Fields() != nil || string(zero.AppendKey([]byte("x"), nil)) != "x" {
		t.Errorf("zero template: got %+v, %q, want no text, no fields, and nothing appended to a key", zero, zero)
	}
}

func TestFieldsAreACopy(t *testing.T) {
	template := mustTemplate(t, "user")
	template.Fields()[0].Kind = Path
	if template.String() != "{user}" {
		t.Errorf("the template changed to %s", template)
	}
}

func TestKindsHaveNames(t *testing.T) {
	if got := fmt.Sprint(Address, JSON, Bytes, Claim, Kind(12)); got != "address field bytes claim unknown(12)" {
		t.Errorf("got %s", got)
	}
}
