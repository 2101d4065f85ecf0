package errtext

import (
	"strings"
	"testing"
)

func TestNearest(t *testing.T) {
	limit := []string{"name", "quota", "window", "algorithm", "segments", "overlap", "anchor", "count_refused", "burst"}
	tests := []struct {
		word  string
		among []string
		want  string
	}{
		{"quota", limit, "quota"},
		{"quotta", limit, "quota"},
		{"qouta", limit, "quota"}, // two neighbours swapped are one mistake
		{"Quota", limit, "quota"},
		{"QUOTA", limit, "quota"},
		{"wndow", limit, "window"},
		{"widnwo", limit, "window"}, // two mistakes in six letters
		{"widwno", limit, ""},       // wid|wno: three
		{"count-refused", limit, "count_refused"},
		{"segment", limit, "segments"},
		{"algo", limit, "algorithm"}, // an abbreviation
		{"seg", limit, "segments"},
		{"al", limit, ""}, // too short for one
		{"colour", limit, ""},
		{"", limit, ""},
		{"policy", []string{"policies"}, "policies"},
		{"ap", []string{"api"}, "api"},
		{"x", []string{"y"}, ""},
		{"cat", []string{"cut", "car", "cot"}, "cut"}, // the first of several that are equally near
		{"cart", []string{"cat", "card", "cart"}, "cart"},
		{"häder", []string{"header", "hader"}, "hader"}, // letters count, not bytes
		{"user", nil, ""},
		{strings.Repeat("quota", 100_000), limit, ""},
	}
	for _, test := range tests {
		got, ok := Nearest(test.word, test.among)
		if got != test.want || ok != (test.want != "") {
			t.Errorf("Nearest(%.20q, %q): got %q, %v, want %q", test.word, test.among, got, ok, test.want)
		}
	}
}

func TestDistance(t *testing.T) {
	tests := []struct {
		a, b string
		want int
	}{
		{"", "", 0}, {"", "abc", 3}, {"abc", "", 3}, {"abc", "abc", 0},
		{"abc", "abd", 1}, {"abc", "ab", 1}, {"abc", "abcd", 1}, {"abc", "bac", 1}, {"abc", "acb", 1},
		{"abc", "cab", 2}, {"ca", "abc", 3}, {"kitten", "sitting", 3}, {"abcdef", "badcfe", 3},
	}
	for _, test := range tests {
		if got := distance([]rune(test.a), []rune(test.b)); got != test.want {
			t.Errorf("distance(%q, %q): got %d, want %d", test.a, test.b, got, test.want)
		}
	}
}

func TestUnknown(t *testing.T) {
	for _, test := range []struct {
		word  string
		among []string
		want  string
	}{
		{"rde", []string{"red", "blue"}, `"rde" is not a colour; did you mean "red"? (want one of red, blue)`},
		{"hot", []string{"red", "blue"}, `"hot" is not a colour (want one of red, blue)`},
		{"rde", []string{"red"}, `"rde" is not a colour; did you mean "red"? (want red)`},
		{"x://u:hunter2@h", []string{"red"}, `"x://u:***@h" is not a colour (want red)`},
	} {
		if got := Unknown(test.word, "a colour", test.among).Error(); got != test.want {
			t.Errorf("got  %s\nwant %s", got, test.want)
		}
	}
}

func TestOneOfIsTruncated(t *testing.T) {
	many := strings.Split(strings.Repeat("w ", 102)+"w", " ")
	if got := OneOf(many); !strings.HasSuffix(got, ", w, w and 3 more") {
		t.Errorf("a list of 103 words ends in %q", got[len(got)-20:])
	}
	if got := OneOf(many[:100]); !strings.HasSuffix(got, ", w, w") {
		t.Errorf("a list of 100 words ends in %q", got[len(got)-20:])
	}
}
