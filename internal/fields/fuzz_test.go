package fields

import (
	"reflect"
	"testing"
)

func FuzzTemplate(f *testing.F) {
	f.Add("user", "-", "")
	f.Add("{user} {path}", "a b", "%2D")
	f.Add("tenant/{header:x-tenant}", "%252D", "")
	f.Add("{{{user}-{field:a.b}}}", "-", "x-y")
	f.Fuzz(func(t *testing.T, text, one, other string) {
		template, err := ParseTemplate(text)
		if err != nil {
			return
		}
		if again, err := ParseTemplate(template.String()); err != nil || !reflect.DeepEqual(again, template) {
			t.Fatalf("%q: got %+v, %v from its own text", template, again, err)
		}
		values := make([][]byte, len(template.fields))
		for i := range values {
			values[i] = [][]byte{[]byte(one), []byte(other), nil}[i%3]
		}
		key := string(template.AppendKey(nil, values))
		if got, err := readKey(template, key); err != nil || !sameValues(got, values) {
			t.Fatalf("%q of %q: got key %q, which reads as %q, %v", template, values, key, got, err)
		}
	})
}

func FuzzCost(f *testing.F) {
	for _, text := range []string{"1", "0", "1_000", "-1", "bytes", "field:a.b", "010"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		cost, err := ParseCost(text)
		if err != nil {
			return
		}
		if again, err := ParseCost(cost.String()); err != nil || again != cost {
			t.Fatalf("%q: got text %q, which reads as %v, %v", text, cost, again, err)
		}
		if units, ok := cost.Fixed(); ok && (units < 0 || units > MaxCost) {
			t.Fatalf("%q: got cost %d", text, units)
		}
	})
}
