package keyform

import (
	"strings"
	"testing"

	"pgregory.net/rapid"
)

func TestMatchKey(t *testing.T) {
	for _, test := range []struct {
		pattern, key string
		want         bool
	}{
		{"", "", true},
		{"", "a", false},
		{"a", "", false},
		{"a", "a", true},
		{"a", "A", false},
		{"a", "ab", false},
		{"*", "", true},
		{"*", "anything at all\x00\xff\n", true},
		{"**", "", true},
		{"a*", "a", true},
		{"a*", "ab", true},
		{"a*", "ba", false},
		{"*a", "a", true},
		{"*a", "ab", false},
		{"*a", "aba", true},
		{"a*a", "a", false}, // one letter is not two
		{"a*a", "aa", true},
		{"ab*ba", "aba", false},
		{"a*b*c", "abc", true},
		{"a*b*c", "a-b-b-c", true},
		{"a*b*c", "acb", false},
		{"a*bb*b", "abbb", true},
		{"a*bb*b", "abb", false},
		{"*a*", "bab", true},
		{"*a*", "bb", false},
		{"a?c", "abc", false}, // only * is special
		{"a?c", "a?c", true},
		{"[a]\\", "[a]\\", true},
		{"a*", "a*", true},
		{"é*", "ète", false},
		{"é*", "échange", true},
		{"team-*/admin", "team-a/b/admin", true},
	} {
		if got := Fits(test.pattern, test.key); got != test.want {
			t.Errorf("Fits(%q, %q) = %t, want %t", test.pattern, test.key, got, test.want)
		}
	}
}

// matchesSlowly is fits by its definition: a * stands for nothing, or for a byte followed by another *.
func matchesSlowly(pattern, key string) bool {
	switch {
	case pattern == "":
		return key == ""
	case pattern[0] == '*':
		return matchesSlowly(pattern[1:], key) || key != "" && matchesSlowly(pattern, key[1:])
	}
	return key != "" && key[0] == pattern[0] && matchesSlowly(pattern[1:], key[1:])
}

func TestMatchKeyIsFits(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		pattern := rapid.StringMatching(`[ab*]{0,8}`).Draw(t, "pattern")
		key := rapid.StringMatching(`[ab]{0,10}`).Draw(t, "key")
		if got, want := Fits(pattern, key), matchesSlowly(pattern, key); got != want {
			t.Fatalf("Fits(%q, %q) = %t, want %t", pattern, key, got, want)
		}
	})
}

// TestMatchKeyIsQuick has keys for which trying all possibilities would take longer than the age of the universe: as
// many steps as there are ways to choose 64 positions out of a million.
func TestMatchKeyIsQuick(t *testing.T) {
	key := strings.Repeat("a", 1<<20)
	for _, test := range []struct {
		pattern string
		want    bool
	}{
		{strings.Repeat("a*", 64) + "b", false},
		{strings.Repeat("*a", 64) + "*b*", false},
		{strings.Repeat("*", 256), true},
		{strings.Repeat("*a", 128), true},
		{strings.Repeat("*"+strings.Repeat("a", 30), 8) + "b*", false},
	} {
		if got := Fits(test.pattern, key); got != test.want {
			t.Errorf("Fits(%q, a million times a) = %t, want %t", test.pattern, got, test.want)
		}
	}
}

func TestMatchKeyAllocatesNothing(t *testing.T) {
	if n := testing.AllocsPerRun(100, func() { Fits("team-*/*admin*", "team-a/b/administrator") }); n != 0 {
		t.Errorf("got %v allocations, want 0", n)
	}
}
