package fields

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/url"
	"strings"
	"testing"
	"time"
)

// seeded returns random numbers, and logs their seed.
func seeded(t *testing.T) *rand.Rand {
	t.Helper()
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	return rand.New(rand.NewPCG(seed, 0))
}

// drawText draws a text of up to this many pieces.
func drawText(random *rand.Rand, most int, pieces ...string) string {
	var text strings.Builder
	for range random.IntN(most + 1) {
		text.WriteString(pieces[random.IntN(len(pieces))])
	}
	return text.String()
}

// missingValue is a missing value in tables.
const missingValue = "\x00none"

func valuesOf(texts ...string) [][]byte {
	values := make([][]byte, len(texts))
	for i, text := range texts {
		if text != missingValue {
			values[i] = []byte(text)
		}
	}
	return values
}

func TestAppendKey(t *testing.T) {
	tests := []struct {
		template string
		values   []string
		want     string
	}{
		{"user", []string{"ann"}, "ann"},
		{"user", []string{"a b%20/é"}, "a b%20/é"}, // a single value is unchanged,
		{"user", []string{""}, ""},
		{"user", []string{missingValue}, "-"},
		{"user", []string{"-"}, "%2D"}, // unless it would look like a missing one
		{"user", []string{"%2D"}, "%252D"},
		{"user", []string{"%252D"}, "%25252D"},
		{"user", []string{"%2d"}, "%2d"},
		{"user", []string{"%22D"}, "%22D"},
		{"user", []string{"%2D-"}, "%2D-"},
		{"user", []string{"2D"}, "2D"},
		{"tenant/{user}!", []string{"a/b!"}, "tenant/a/b!!"},
		{"tenant/{user}!", []string{missingValue}, "tenant/-!"},
		{"tenant/{user}!", []string{"-"}, "tenant/%2D!"},
		{"{{{user}}}", []string{"a"}, "{a}"},
		{"{user} {path}", []string{"ann", "/a"}, "ann /a"},
		{"{user} {path}", []string{"a b", "c"}, "a%20b c"},
		{"{user} {path}", []string{"a", "b c"}, "a b%20c"},
		{"{user} {path}", []string{"100%", "-x"}, "100%25 -x"},
		{"{user} {path}", []string{missingValue, "-"}, "- %2D"},
		{"{user} {path}", []string{"", ""}, " "},
		{"{user}: {path}/", []string{"a:b", "c d/"}, "a%3Ab: c d//"}, // only the first byte of a text between fields
		{"{user}-{path}", []string{missingValue, ""}, "%--"},
		{"{user}-{path}", []string{"", missingValue}, "-%-"},
		{"{user}-{path}", []string{"a-b", "-"}, "a%2Db-%2D"},
		{"{user}2{path}", []string{"2%", "x"}, "%32%252x"},
		{"{user} {path}{{{host}", []string{"{", " ", "\n"}, "%7B %20{\n"},
	}
	for _, test := range tests {
		got := mustTemplate(t, test.template).AppendKey([]byte("k="), valuesOf(test.values...))
		if string(got) != "k="+test.want {
			t.Errorf("%s of %q: got %q, want k=%s", test.template, test.values, got, test.want)
		}
	}
}

// readKey is the inverse of AppendKey: it returns the values that a key was made of. Its existence proves that no two tuples of
// values have the same key.
func readKey(t Template, key string) ([][]byte, error) {
	key, found := strings.CutPrefix(key, t.literals[0])
	if !found {
		return nil, errors.New("the key begins with something else")
	}
	if key, found = strings.CutSuffix(key, t.literals[len(t.fields)]); !found {
		return nil, errors.New("the key ends in something else")
	}
	if len(t.fields) == 1 {
		return [][]byte{readOnlyValue(key)}, nil
	}
	var values [][]byte
	for i := range t.fields {
		between := t.literals[i+1]
		if i == len(t.fields)-1 {
			between = ""
		}
		end := valueEnd(key, between)
		value, err := readValue(key[:end])
		if err != nil {
			return nil, err
		}
		values = append(values, value)
		if key, found = strings.CutPrefix(key[end:], between); !found {
			return nil, fmt.Errorf("field %d is not followed by %q", i, between)
		}
	}
	return values, nil
}

// valueEnd returns where the first value in key ends: where the text between begins, or at the end if there is none.
func valueEnd(key, between string) (end int) {
	for end < len(key) && (between == "" || key[end] != between[0]) {
		switch {
		case strings.HasPrefix(key[end:], "%-"):
			end += 2
		case key[end] == '%':
			end += 3
		default:
			end++
		}
	}
	return end
}

// readValue reads one of several values.
func readValue(text string) ([]byte, error) {
	if text == "-" || text == "%-" {
		return nil, nil
	}
	value, err := url.PathUnescape(text)
	return []byte(value), err
}

func readOnlyValue(key string) []byte {
	switch {
	case key == "-":
		return nil
	case key == "%2D":
		return []byte("-")
	case strings.HasPrefix(key, "%25") && strings.HasSuffix(key, "2D") && strings.ReplaceAll(key[1:len(key)-2], "25", "") == "":
		return []byte("%" + key[3:])
	}
	return []byte(key)
}

// drawTemplate draws a template with texts that could confuse a reader of its keys.
func drawTemplate(random *rand.Rand) Template {
	for {
		text := drawText(random, 2, "-", "%", "2", "D", " ", ":", "{{")
		for range 1 + random.IntN(3) {
			text += "{user}" + drawText(random, 2, "-", "%", "2", "D", " ", ":", "}}")
		}
		if template, err := ParseTemplate(text); err == nil {
			return template
		}
	}
}

func drawValues(random *rand.Rand, n int) [][]byte {
	values := make([][]byte, n)
	for i := range values {
		switch random.IntN(5) {
		case 0: // missing
		case 1, 2:
			values[i] = make([]byte, random.IntN(7))
			for j := range values[i] {
				values[i][j] = byte(random.IntN(256))
			}
		default:
			values[i] = []byte(drawText(random, 4, "%", "-", "2", "5", "D", ":", " ", "}", "%2D", "%25", "a"))
		}
	}
	return values
}

func sameValues(a, b [][]byte) bool {
	for i := range a {
		if (a[i] == nil) != (b[i] == nil) || !bytes.Equal(a[i], b[i]) {
			return false
		}
	}
	return len(a) == len(b)
}

// TestKeysCanBeReadBack shows that two different tuples of values never make the same key.
func TestKeysCanBeReadBack(t *testing.T) {
	random := seeded(t)
	for range 5_000 {
		template := drawTemplate(random)
		values := drawValues(random, len(template.fields))
		key := string(template.AppendKey(nil, values))
		got, err := readKey(template, key)
		if err != nil || !sameValues(got, values) {
			t.Fatalf("%s of %q: got %q, which reads as %q, %v", template, values, key, got, err)
		}
	}
}

// TestNoTwoKeysAreTheSame tries all pairs of values of a few letters, without readKey.
func TestNoTwoKeysAreTheSame(t *testing.T) {
	letters := []string{"%", "-", "2", "5", "D", " ", "a"}
	texts := []string{missingValue, "", "%2D", "%25", "%252D", "%%2D", "%20", "%32", "%61", "%44", "-%2D", "---"}
	for _, a := range letters {
		texts = append(texts, a)
		for _, b := range letters {
			texts = append(texts, a+b)
		}
	}
	for _, text := range []string{"{user}", "-{user}", "{user}%2D", "{user} {path}", "{user}-{path}", "{user}2{path}", "{user}a-{path}", "-{user}D{path}-"} {
		template := mustTemplate(t, text)
		seen := map[string]string{}
		second := texts
		if len(template.fields) == 1 {
			second = texts[:1]
		}
		for _, a := range texts {
			for _, b := range second {
				values := fmt.Sprintf("%q", []string{a, b})
				key := string(template.AppendKey(nil, valuesOf(a, b)))
				if other, ok := seen[key]; ok {
					t.Fatalf("%s: %s and %s both have the key %q", template, values, other, key)
				}
				seen[key] = values
			}
		}
	}
}

func TestAppendKeyAllocatesNothing(t *testing.T) {
	key := make([]byte, 0, 256)
	for text, values := range map[string][][]byte{
		"user":                     valuesOf("ann"),
		"{user} {path}":            valuesOf("ann smith", "/a%20b"),
		"{user}-{path}-{method}":   valuesOf(missingValue, "-", "GET"),
		"tenant/{header:X-Tenant}": valuesOf("-"),
	} {
		template := mustTemplate(t, text)
		if n := testing.AllocsPerRun(100, func() { key = template.AppendKey(key[:0], values) }); n != 0 {
			t.Errorf("%s: got %v allocations, want 0", text, n)
		}
	}
}

func BenchmarkAppendKey(b *testing.B) {
	for _, bench := range []struct {
		template string
		values   [][]byte
	}{
		{"address", valuesOf("198.51.100.123")},
		{"{address} {path}", valuesOf("198.51.100.123", "/search/results.html")},
	} {
		b.Run(strings.ReplaceAll(bench.template, " ", "_"), func(b *testing.B) {
			template, err := ParseTemplate(bench.template)
			if err != nil {
				b.Fatal(err)
			}
			key := make([]byte, 0, 256)
			b.ReportAllocs()
			for b.Loop() {
				key = template.AppendKey(key[:0], bench.values)
			}
		})
	}
}
