package traffic

import (
	"bytes"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// twoParsers returns the parser of JSON lines, and the same without its fast path.
func twoParsers() (quick, general *linesParser) {
	s, err := shapeOf(&layouts[0], nil)
	if err != nil {
		panic(err)
	}
	p, err := planFor(s, &Options{})
	if err != nil {
		panic(err)
	}
	first, err1 := s.newParser(p)
	second, err2 := s.newParser(p)
	if err1 != nil || err2 != nil {
		panic("no parser")
	}
	quick, general = first.(*linesParser), second.(*linesParser)
	general.plain = false
	return quick, general
}

type fataler interface{ Fatalf(string, ...any) }

// checkAgree checks that the fast path and the general parser agree, and reports whether the fast path was used.
func checkAgree(t fataler, line []byte) (quickly bool) {
	quick, general := twoParsers()
	w := wants{fields: setOf(fieldKey, fieldCost)}
	e1, e2, e3 := newEntry(w), newEntry(w), newEntry(w)
	why1, why2 := quick.parse(line, e1), general.parse(line, e2)
	if why1 != why2 {
		t.Fatalf("%q: got %q, want %q as from the general parser", line, why1, why2)
	}
	if why1 == "" && (e1.at != e2.at || !bytes.Equal(e1.values[fieldCost], e2.values[fieldCost]) || !bytes.Equal(e1.time, e2.time) ||
		!bytes.Equal(e1.values[fieldKey], e2.values[fieldKey])) {
		t.Fatalf("%q: got %+v, want %+v as from the general parser", line, e1, e2)
	}
	return quick.quick(line, e3)
}

func FuzzLinesQuickAndGeneralAgree(f *testing.F) {
	for _, text := range []string{
		`{"t":1794725314000,"key":"alice","cost":3}`, `{"key":"bob","t":1794725314000.25}`, `{"t":0,"key":"a"}`, `{"t":01,"key":"a"}`,
		`{"t":1,"key":"a","cost":1e3}`, `{"t":1,"key":"a","cost":3.0}`, `{"t":1,"key":"a","cost":3.5}`, `{"t":1,"key":"a","cost":-1}`,
		`{"t":1,"key":"a","cost":9007199254740992}`, `{"t":1,"key":"a","t":2}`, `{"t":1,"key":"a","key":null}`, `{"t":1,"key":"\u0061"}`,
		`{"t":1.,"key":"a"}`, `{"t":1.0009,"key":"a"}`, `{"t":1,"key":"a",}`, `{"t":1,"key":"a"} `, `{"t":1,"key":"a"`, `{"t":1}`,
		`{"t":9999999999999,"key":"a"}`, ` {"t":1,"key":"a"}`, `{"t":"2026-11-15T06:48:34Z","key":5}`, `{}`, `{"t":1,"key":["a"]}`,
	} {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, line []byte) { checkAgree(t, line) })
}

func TestQuickAndGeneralAgree(t *testing.T) {
	quickly := 0
	rapid.Check(t, func(t *rapid.T) {
		// Most of what is drawn is typical, so that lines with a single oddity are frequent.
		mostly := func(usual string, odd ...string) *rapid.Generator[string] {
			return rapid.SampledFrom(append(slices.Repeat([]string{usual}, 9*len(odd)), odd...))
		}
		odd := []string{"0", "01", "1.", "1.5", "1e3", "3.0", "-1", "9007199254740991", "9007199254740992", `"3"`, "null", "12345678901234567890"}
		values := map[string]*rapid.Generator[string]{
			"t":    mostly("1794725314000", append(odd, "1794725314000.125", "1.0001", `"2026-11-15T06:48:34Z"`)...),
			"key":  mostly(`"alice:7"`, `"é"`, `"\n"`, `""`, "7", `"a`, `"a\"`, "null", `"0123456789abcdef"`),
			"cost": mostly("12", odd...),
			"x":    mostly("true", "tru"),
		}
		space := mostly("", " ", "\t", "\r")
		var b bytes.Buffer
		b.WriteString(mostly("{", "", " {", "[").Draw(t, "start"))
		names := rapid.Permutation([]string{"t", "key", "cost"}).Draw(t, "names")
		names = append(names, list(mostly("", "t", "key", "cost", "x").Draw(t, "more"))...)
		for i, name := range names {
			if i > 0 {
				b.WriteString(mostly(",", "", ",,").Draw(t, "comma"))
			}
			b.WriteString(space.Draw(t, "space") + `"` + name + `"` + space.Draw(t, "space") + ":" + space.Draw(t, "space"))
			b.WriteString(values[name].Draw(t, "value") + space.Draw(t, "space"))
		}
		b.WriteString(mostly("}", "} ", "", "}}", ",}").Draw(t, "end"))
		if checkAgree(t, b.Bytes()) {
			quickly++
		}
	})
	if quickly < 10 {
		t.Errorf("got %d lines on the fast path, want more to compare", quickly)
	}
}

// Typical lines use the fast path.
func TestUsualLinesAreQuick(t *testing.T) {
	for line, want := range map[string]bool{
		`{"t":1794725314000,"key":"alice","cost":3}`:            true,
		`{"cost":0,"key":"2001:db8::/64","t":1794725314000.25}`: true,
		`{ "t" : 1794725314000 , "key" : "héllo" }`:             true,
		`{"t":1794725314000,"key":"a\tb"}`:                      false,
		`{"t":"2026-11-15T06:48:34Z","key":"a"}`:                false,
		`{"t":1794725314000,"key":"a","more":1}`:                false,
	} {
		if got := checkAgree(t, []byte(line)); got != want {
			t.Errorf("%s: quick %v, want %v", line, got, want)
		}
	}
}

func TestUnreadableLinesFormat(t *testing.T) {
	for line, want := range map[string]string{
		`{"key":"a"}`:                               "time: t is missing",
		`{"t":null,"key":"a"}`:                      "time: t is missing",
		`{"t":true,"key":"a"}`:                      "time: t must be milliseconds since 1970 or a string",
		`{"t":"yesterday","key":"a"}`:               "time: want a time such as 2006-01-02T15:04:05Z, with a zone, or a number since 1970",
		`{"t":0,"key":"a"}`:                         "time: must be between 1970 and 2245",
		`{"t":-5,"key":"a"}`:                        "time: must be between 1970 and 2245",
		`{"t":0.0009,"key":"a"}`:                    "time: must be between 1970 and 2245",
		`{"t":0.001,"key":"a"}`:                     "",
		`{"t":8690975254740.991,"key":"a"}`:         "", // 2^53 - 1 microseconds less ten years of 366 days
		`{"t":8690975254740.992,"key":"a"}`:         "time: must be between 1970 and 2245",
		`{"t":1}`:                                   "key: key is missing",
		`{"t":1,"key":{"a":1}}`:                     "key: must be a string or a number",
		`{"t":1,"key":"a","cost":"many"}`:           "cost: want a whole number from 0 to 9007199254740991",
		`{"t":1,"key":"a","cost":1.5}`:              "cost: want a whole number from 0 to 9007199254740991",
		`{"t":1,"key":"a","cost":-1}`:               "cost: want a whole number from 0 to 9007199254740991",
		`{"t":1,"key":"a","cost":9007199254740992}`: "cost: want a whole number from 0 to 9007199254740991",
		`{"t":1,"key":"a","cost":9007199254740991}`: "",
		`{"t":1,"key":"a","cost":[1]}`:              "cost: must be a string or a number",
		`{"t":1,"key":"a","cost":null}`:             "",
		`{"t":1,"key":"a","cost":2`:                 "JSON: the line ends early",
		`{"t":1,"key":"a","cost":2}}`:               "JSON: invalid JSON at byte 27",
	} {
		r, err := NewReader("log", strings.NewReader(line), Options{Format: "lines"})
		if err != nil {
			t.Fatal(err)
		}
		if _, got := r.take([]byte(line), &Line{}); got != want {
			t.Errorf("%s: got %q, want %q", line, got, want)
		}
	}
}
