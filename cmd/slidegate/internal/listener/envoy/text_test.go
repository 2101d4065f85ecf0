package envoy

import (
	"net/url"
	"strings"
	"testing"
	"unicode/utf8"

	"pgregory.net/rapid"
)

func TestTextOfDescriptors(t *testing.T) {
	for _, c := range []struct {
		entries []*entry
		want    string
	}{
		{[]*entry{{Key: "remote_address", Value: "2001:db8::1"}}, "remote_address=2001:db8::1"},
		{[]*entry{{Key: "path", Value: "/a b?x=1,2"}, {Key: "client"}}, "path=/a b?x%3D1%2C2,client="},
		{[]*entry{{Key: "100%", Value: "tab\tline\n\x00\xff ü"}}, "100%25=tab%09line%0A%00%FF ü"},
	} {
		if got := string(appendText(nil, c.entries)); got != c.want {
			t.Errorf("%v: got %q, want %q", c.entries, got, c.want)
		}
	}
}

// TestTextsAreUnambiguous: every descriptor has a text of printable characters, from which its entries can be told.
func TestTextsAreUnambiguous(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		field := rapid.OneOf(rapid.String(), rapid.Map(rapid.SliceOf(rapid.Byte()), func(b []byte) string { return string(b) }))
		var entries []*entry
		for range rapid.IntRange(1, 4).Draw(t, "entries") {
			entries = append(entries, &entry{Key: "k" + field.Draw(t, "key"), Value: field.Draw(t, "value")})
		}
		text := string(appendText(nil, entries))
		parts := strings.Split(text, ",")
		if len(parts) != len(entries) {
			t.Fatalf("%q: got %d entries, want %d", text, len(parts), len(entries))
		}
		for i, part := range parts {
			key, value, _ := strings.Cut(part, "=")
			key, keyErr := url.PathUnescape(key)
			value, valueErr := url.PathUnescape(value)
			if keyErr != nil || valueErr != nil || key != entries[i].Key || value != entries[i].Value {
				t.Fatalf("%q: entry %d: got %q and %q, want %q and %q", text, i+1, key, value, entries[i].Key, entries[i].Value)
			}
		}
		if !utf8.ValidString(text) || strings.ContainsAny(text, "\n\t\x00\x1b") {
			t.Fatalf("%q is not printable", text)
		}
	})
}
