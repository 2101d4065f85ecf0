package jsonscan

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// aJSON draws a JSON value as text, with few names so that they often match, and with spaces.
func aJSON(t *rapid.T, depth int) string {
	space := rapid.SampledFrom([]string{"", "", " ", "\t"}).Draw(t, "space")
	kind := rapid.IntRange(0, 7).Draw(t, "kind")
	if depth == 0 {
		kind = rapid.IntRange(0, 5).Draw(t, "leaf")
	}
	switch kind {
	case 0, 1:
		return space + aString(t) + space
	case 2:
		return rapid.StringMatching(`-?(0|[1-9][0-9]{0,20})(\.[0-9]{1,9})?([eE][-+]?[0-9]{1,3})?`).Draw(t, "number")
	case 3, 4, 5:
		return space + rapid.SampledFrom([]string{"true", "false", "null"}).Draw(t, "word")
	case 6:
		var items []string
		for range rapid.IntRange(0, 3).Draw(t, "items") {
			items = append(items, aJSON(t, depth-1))
		}
		return "[" + space + strings.Join(items, ",") + "]" + space
	}
	return anObject(t, depth)
}

func anObject(t *rapid.T, depth int) string {
	var members []string
	for range rapid.IntRange(0, 4).Draw(t, "members") {
		name := rapid.SampledFrom([]string{`"a"`, `"b"`, `"c"`, `"A"`, `"\u0061"`, `"0"`, `"a.b"`, `""`}).Draw(t, "name")
		members = append(members, name+rapid.SampledFrom([]string{":", " : "}).Draw(t, "colon")+aJSON(t, depth-1))
	}
	return "{" + strings.Join(members, ",") + "}"
}

func aString(t *rapid.T) string {
	parts := rapid.SliceOfN(rapid.SampledFrom([]string{
		"a", "plain text of some length", "é", "\\n", "\\\"", "\\\\", "\\/", "\\u00e9", "\\ud83d\\ude00", "\\ud83d", "\\ude00x",
		"\\ud83d\\u0041", "\\t", "\\b\\f\\r", "-", "\x7f", "€",
	}), 0, 6).Draw(t, "parts")
	return `"` + strings.Join(parts, "") + `"`
}

// wantAt returns what encoding/json finds at a path; there too the last of duplicate members counts.
func wantAt(text string, path []string) (string, bool) {
	for _, name := range path {
		var object map[string]json.RawMessage
		var array []json.RawMessage
		var ok bool
		if json.Unmarshal([]byte(text), &object) == nil && object != nil {
			var raw json.RawMessage
			if raw, ok = object[name]; ok {
				text = string(raw)
			}
		} else if json.Unmarshal([]byte(text), &array) == nil {
			var i int
			if _, err := fmt.Sscan(name, &i); err == nil && i < len(array) {
				text, ok = string(array[i]), true
			}
		}
		if !ok {
			return "", false
		}
	}
	return strings.Trim(text, " \t"), true
}

// slotsOf requests the members at paths.
func slotsOf(t interface{ Fatal(...any) }, s *Scanner, paths ...string) (slots []int) {
	for _, path := range paths {
		names, err := SplitPath(path)
		if err != nil {
			t.Fatal(err)
		}
		slots = append(slots, s.Slot(names, false))
	}
	return slots
}

func TestMembersAreThoseOfTheStandardLibrary(t *testing.T) {
	paths := []string{"a", "b", "a.b", "a.b.c", "b.0", "c.0.a", `a\.b`, "A", "a.0"}
	rapid.Check(t, func(t *rapid.T) {
		line := anObject(t, 4)
		var s Scanner
		slots := slotsOf(t, &s, paths...)
		for range 2 { // nothing is left over from the line before
			if !s.Read([]byte(line)) {
				t.Fatalf("%s: got an error at %d, want none", line, s.errorOffset)
			}
			for i, path := range paths {
				names, _ := SplitPath(path)
				want, found := wantAt(line, names)
				got := s.Raw(slots[i])
				if (got != nil) != found || string(got) != want {
					t.Fatalf("%s at %s: got %q, want %q, %v", line, path, got, want, found)
				}
				var text string
				if found && want[0] == '"' {
					if err := json.Unmarshal([]byte(want), &text); err != nil {
						t.Fatal(err)
					}
					if got := s.Text(got); string(got) != text {
						t.Fatalf("%s: got %q, want %q", want, got, text)
					}
				}
			}
		}
	})
}

// FuzzJSON checks that the scanner accepts exactly the objects that the standard library accepts.
func FuzzJSON(f *testing.F) {
	for _, text := range []string{
		`{}`, `{"a":1}`, `{"a":[1,2,{"b":"c"}],"d":null}`, `{"a":"\u00e9\ud83d\ude00"}`, `{"a":1,}`, `{"a":01}`, `{"a":1.}`, `{"a":"`,
		`{"a":"x` + "\x01" + `"}`, `{"a":tru}`, `{"a":1}x`, `{"a":-}`, `{"a":1e}`, `[1]`, ` {"a" : -0.5e+7 } `, `{"a":"\x"}`, `{"a":"\u12"}`,
	} {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, line []byte) {
		var s Scanner
		slots := slotsOf(t, &s, "a", "a.b", "a.0")
		got := s.Read(line)
		trimmed := strings.TrimLeft(string(line), " \t\r\n")
		want := strings.HasPrefix(trimmed, "{") && json.Valid(line)
		if got != want && !s.tooDeep {
			t.Fatalf("%q: got %v, want %v", line, got, want)
		}
		if !got {
			if s.Reason() == "" || s.errorOffset < 0 || s.errorOffset > len(line) {
				t.Fatalf("%q: got an error at %d", line, s.errorOffset)
			}
			return
		}
		for _, slot := range slots {
			s.Text(s.Raw(slot))
		}
	})
}

func TestWhyJSONIsBad(t *testing.T) {
	for line, want := range map[string]string{
		`{"a":1`:           "the line ends early",
		`{"a":"b`:          "the line ends early",
		`{"a":"b\`:         "the line ends early",
		`{"a":1} x`:        "invalid JSON at byte 9",
		`{"a":1,}`:         "invalid JSON at byte 8",
		`{"a":01}`:         "invalid JSON at byte 6",
		`[1]`:              "the line is not an object",
		`hello`:            "the line is not an object",
		"{\"a\":\"\x01\"}": "invalid JSON at byte 7",
		`{"a":` + strings.Repeat("[", 600) + strings.Repeat("]", 600) + `}`: "nested more than 512 deep",
		`{"a":` + strings.Repeat("[", 512) + strings.Repeat("]", 512) + `}`: "",
	} {
		var s Scanner
		got := ""
		if !s.Read([]byte(line)) {
			got = s.Reason()
		}
		if got != want {
			t.Errorf("%.20s: got %q, want %q", line, got, want)
		}
	}
}

// The text of an array, such as a header that was sent twice, is that of its first element.
func TestTextOfValues(t *testing.T) {
	for raw, want := range map[string]string{
		`["a","b"]`: "a", `[ [ "a" ] ]`: "a", `"-"`: "-", `12.50`: "12.50", `true`: "true", `{"a":1}`: `{"a":1}`,
		`""`: "", `"a\u0020b"`: "a b",
	} {
		var s Scanner
		if got := s.Text([]byte(raw)); got == nil || string(got) != want {
			t.Errorf("%s: got %q, want %q", raw, got, want)
		}
	}
	for _, raw := range []string{"", "null", "[]", "[ ]", "[null]", "[[]]"} {
		var s Scanner
		if got := s.Text([]byte(raw)); got != nil {
			t.Errorf("%s: got %q, want nil", raw, got)
		}
	}
}

func TestEndOfPlain(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		some := rapid.SampledFrom([]byte("aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa\x1f !#[]\x7f\x80\x9f\xa2\xdc\xff\x00\x01\"\\"))
		text := rapid.SliceOfN(some, 0, 40).Draw(t, "text")
		start := rapid.IntRange(0, len(text)).Draw(t, "start")
		want := start
		for want < len(text) && text[want] >= ' ' && text[want] != '"' && text[want] != '\\' {
			want++
		}
		if got := EndOfPlain(text, start); got != want {
			t.Fatalf("%q from %d: got %d, want %d", text, start, got, want)
		}
	})
}

// A member has one slot, whether it is requested exactly, case-insensitively, or both.
func TestNamesInAnyCase(t *testing.T) {
	for _, order := range [][2]bool{{false, true}, {true, false}, {true, true}, {false, false}} {
		tree := newTree()
		first := tree.add([]string{"headers", "X-Key"}, order[0], 0)
		second := tree.add([]string{"headers", "X-Key"}, order[1], 1)
		if first != 0 || second != 0 {
			t.Errorf("%v: the slots are %d and %d, want one", order, first, second)
		}
		found := tree.childNamed([]byte("headers")).childNamed([]byte("x-kEY")) != nil
		if want := order[0] || order[1]; found != want {
			t.Errorf("%v: found in another case %v, want %v", order, found, want)
		}
		if tree.childNamed([]byte("Headers")) != nil {
			t.Errorf("%v: only the last name matches in any case", order)
		}
	}
}

func TestSplitPath(t *testing.T) {
	for path, want := range map[string]string{
		"a": "a", "a.b.0": "a|b|0", `a\.b.c`: "a.b|c", `a\\.b`: `a\|b`, "": "", ".": "", "a.": "", "a..b": "",
	} {
		names, err := SplitPath(path)
		if got := strings.Join(names, "|"); got != want || (err == nil) != (want != "") {
			t.Errorf("%q: got %q, %v, want %q", path, got, err, want)
		}
	}
}
