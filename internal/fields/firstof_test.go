package fields

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
)

// No client can choose a name that makes the key of another.
func TestNamesAreNotAddresses(t *testing.T) {
	templates := []string{"header:A", "t{header:A}", "{header:A} {path}", "{header:A}:{header:B}"}
	lists := [][]string{{"header:A", "header:B"}, {"header:A", "user", "{header:B} {path}"}, {"{header:A} {header:B}", "header:B"}, {"header:A", "field:x", "field:x%3Ay"}}
	var all []Template
	for _, text := range templates {
		all = append(all, mustTemplate(t, text))
	}
	for _, texts := range lists {
		var parts []Template
		for _, text := range texts {
			parts = append(parts, mustTemplate(t, text))
		}
		made, _, err := FirstOf(parts...)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, made)
	}
	pieces := []string{"", "%", "a", "address:", "1.2.3.4", "header:B:", "user:", "header:B,path:", "field:x:", "y:", "field:x%253Ay:", " ", "-", "%61", "ddress:"}
	random := rand.New(rand.NewPCG(1, 2))
	for _, template := range all {
		seen := map[string]string{}
		for range 20_000 {
			values := make([][]byte, len(template.Fields()))
			for i := range values {
				if value := pieces[random.IntN(len(pieces))] + pieces[random.IntN(len(pieces))] + pieces[random.IntN(len(pieces))]; value != "" {
					values[i] = []byte(value)
				}
			}
			address := []string{"1.2.3.4", "a"}[random.IntN(2)]
			who := identity(template, values, address)
			key := string(template.AppendKeyOr(nil, values, []byte(address)))
			if other, taken := seen[key]; taken && other != who {
				t.Fatalf("%v: got key %q for both %s and %s", template, key, other, who)
			}
			seen[key] = who
		}
	}
}

// identity returns the parts that a key must distinguish: the alternative that applies, its values, and the address if it replaces a name.
func identity(t Template, values [][]byte, address string) string {
	alternative, start, ok := t.choose(values)
	if !ok && len(t.others) > 0 {
		return "address " + address
	}
	fields := t.Alternatives()[alternative].fields
	text := fmt.Sprint(alternative)
	for i := range fields {
		if value := values[start+i]; len(value) == 0 && fields[i].Kind.NamesClient() {
			text += " address " + address
		} else {
			text += fmt.Sprintf(" %q", value)
		}
	}
	return text
}

func TestFirstOfRejects(t *testing.T) {
	address, user, both := mustTemplate(t, "address"), mustTemplate(t, "user"), mustTemplate(t, "{user} {path}")
	for _, test := range []struct {
		templates []Template
		want      string
	}{
		{nil, "at least one"},
		{[]Template{address, user}, "{user} is never reached, since {address} before it"},
		{[]Template{user, both}, "{user} {path} is never reached"},
		{[]Template{user, user}, "never reached"},
		{[]Template{{}}, "a single template"},
	} {
		if _, _, err := FirstOf(test.templates...); err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("FirstOf(%v) returned %v, want an error with %q", test.templates, err, test.want)
		}
	}
	if _, _, err := FirstOf(mustTemplate(t, "header:A"), both, address); err != nil {
		t.Error(err)
	}
}
