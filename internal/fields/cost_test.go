package fields

import "testing"

func TestParseCost(t *testing.T) {
	tests := []struct {
		text  string
		fixed int64
		field Field
		back  string // what String returns, if that is not text
	}{
		{text: "1", fixed: 1},
		{text: "0", fixed: 0},
		{text: "25", fixed: 25},
		{text: "1_000", fixed: 1000, back: "1000"},
		{text: "9007199254740991", fixed: 1<<53 - 1},
		{text: "bytes", field: Field{Kind: Bytes}},
		{text: "field:usage.total_tokens", field: Field{Kind: JSON, Name: "usage.total_tokens"}},
		{text: "field:a:b", field: Field{Kind: JSON, Name: "a:b"}},
	}
	for _, test := range tests {
		c, err := ParseCost(test.text)
		if err != nil {
			t.Errorf("%s is rejected: %v", test.text, err)
			continue
		}
		fixed, isFixed := c.Fixed()
		field, isField := c.Field()
		wantField := test.field != Field{}
		if fixed != test.fixed || isFixed == wantField || field != test.field || isField != wantField {
			t.Errorf("%s: got fixed %d, %v and field %v, %v, want %d, %v and %v, %v",
				test.text, fixed, isFixed, field, isField, test.fixed, !wantField, test.field, wantField)
		}
		if test.back == "" {
			test.back = test.text
		}
		if text := c.String(); text != test.back {
			t.Errorf("%s: got text %q, want %q", test.text, text, test.back)
		}
		if c.IsZero() != (test.text == "1") {
			t.Errorf("%s: got IsZero %v", test.text, c.IsZero())
		}
	}
	if units, ok := (Cost{}).Fixed(); !ok || units != 1 {
		t.Errorf("zero value: got %d, %v, want 1", units, ok)
	}
}

func TestParseCostRejects(t *testing.T) {
	const forms = " (want a whole number in plain digits, header:NAME, bytes or field:PATH)"
	tests := []struct{ text, want string }{
		{"", `"" is not a cost` + forms},
		{"-1", `must be 0 to 9007199254740991, not -1`},
		{"9007199254740992", `must be 0 to 9007199254740991, not 9007199254740992`},
		{"99999999999999999999", `"99999999999999999999" is not a cost` + forms},
		{"01", `"01" is not a cost` + forms},
		{"_1", `"_1" is not a cost` + forms},
		{"+1", `"+1" is not a cost` + forms},
		{"-", `"-" is not a cost` + forms},
		{"--1", `"--1" is not a cost` + forms},
		{"1.5", `"1.5" is not a cost` + forms},
		{"0x10", `"0x10" is not a cost` + forms},
		{"Bytes", `"Bytes" is not a cost; did you mean "bytes"?` + forms},
		{"feild:a", `"feild:a" is not a cost; did you mean "field"?` + forms},
		{"address", `"address" is not a cost` + forms},
		{"field", `field: needs a path, such as field:user.id`},
		{"field:", `field: needs a path, such as field:user.id`},
		{"field:a..b", `the path "a..b" has an empty name; separate names by one dot, such as user.id`},
	}
	for _, test := range tests {
		if _, err := ParseCost(test.text); err == nil || err.Error() != test.want {
			t.Errorf("%s: got %v\nwant %s", test.text, err, test.want)
		}
	}
}
