package envoy

import (
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
	for _, c := range []struct{ text, want string }{
		{"a=b=c", "entry 1 of the descriptor has two ="},
		{"a=b,c=%2", "entry 2 of the descriptor has a % without two hex digits"},
		{"", "entry 1 of the descriptor has no key"},
		{"a=b,", "entry 2 of the descriptor has no key"},
		{strings.Repeat("a=b,", MaxEntries) + "a=b", "33 entries"},
	} {
		if _, err := parseText(c.text); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%q: got %v, want %q", c.text, err, c.want)
		}
	}
	if entries, err := parseText("a,b=%41"); err != nil || string(appendText(nil, entries)) != "a=,b=A" {
		t.Errorf("other spellings: got %v, %v", entries, err)
	}
}

// TestTextsAreUnambiguous: every descriptor has a text of printable characters, which is parsed back to it.
func TestTextsAreUnambiguous(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		field := rapid.OneOf(rapid.String(), rapid.Map(rapid.SliceOf(rapid.Byte()), func(b []byte) string { return string(b) }))
		var entries []*entry
		for range rapid.IntRange(1, 4).Draw(t, "entries") {
			entries = append(entries, &entry{Key: "k" + field.Draw(t, "key"), Value: field.Draw(t, "value")})
		}
		text := string(appendText(nil, entries))
		read, err := parseText(text)
		if err != nil {
			t.Fatalf("%q: %v", text, err)
		}
		if got, want := string(appendAddress(nil, read, nil)), string(appendAddress(nil, entries, nil)); got != want {
			t.Fatalf("%q: got %v, want %v", text, read, entries)
		}
		if !utf8.ValidString(text) || strings.ContainsAny(text, "\n\t\x00\x1b") {
			t.Fatalf("%q is not printable", text)
		}
	})
}
