package config

import (
	"math/rand/v2"
	"strings"
	"testing"
	"time"
)

// seeded returns random numbers, and says what they can be had again by.
func seeded(t *testing.T) *rand.Rand {
	t.Helper()
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	return rand.New(rand.NewPCG(seed, 0))
}

// drawText makes a text of up to so many pieces.
func drawText(random *rand.Rand, most int, pieces ...string) string {
	var text strings.Builder
	for range random.IntN(most + 1) {
		text.WriteString(pieces[random.IntN(len(pieces))])
	}
	return text.String()
}

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
		{"a?c", "abc", false}, // nothing but * stands for anything else
		{"a?c", "a?c", true},
		{"[a]\\", "[a]\\", true},
		{"a*", "a*", true},
		{"é*", "ète", false},
		{"é*", "échange", true},
		{"team-*/admin", "team-a/b/admin", true},
	} {
		if got := MatchKey(test.pattern, test.key); got != test.want {
			t.Errorf("MatchKey(%q, %q) is %t", test.pattern, test.key, got)
		}
	}
}

// fits is MatchKey as one would say it: a * stands for nothing, or for a byte and then again for a *.
func fits(pattern, key string) bool {
	switch {
	case pattern == "":
		return key == ""
	case pattern[0] == '*':
		return fits(pattern[1:], key) || key != "" && fits(pattern, key[1:])
	}
	return key != "" && key[0] == pattern[0] && fits(pattern[1:], key[1:])
}

func TestMatchKeyIsFits(t *testing.T) {
	random := seeded(t)
	for range 10_000 {
		pattern, key := drawText(random, 8, "a", "b", "*"), drawText(random, 10, "a", "b")
		if got, want := MatchKey(pattern, key), fits(pattern, key); got != want {
			t.Fatalf("MatchKey(%q, %q) is %t", pattern, key, got)
		}
	}
}

// TestCoveredPatterns checks how overrides that are never reached are found: a pattern that fits another as it is written
// fits all keys of it, and otherwise there is a key that it does not fit.
func TestCoveredPatterns(t *testing.T) {
	random := seeded(t)
	for range 10_000 {
		earlier := drawText(random, 6, "a", "b", "*") + "*" + drawText(random, 3, "a", "b", "*")
		later := drawText(random, 8, "a", "b", "*")
		var seen reach
		seen.add(Override{Key: earlier, Pattern: true}, 1)
		_, covered := seen.before(Override{Key: later, Pattern: strings.Contains(later, "*")})
		if !covered {
			if key := strings.ReplaceAll(later, "*", "c"); fits(earlier, key) {
				t.Fatalf("%q fits %q of %q", earlier, key, later)
			}
			continue
		}
		key := ""
		for _, c := range later {
			if c != '*' {
				key += string(c)
				continue
			}
			key += drawText(random, 4, "a", "b", "c")
		}
		if !fits(earlier, key) {
			t.Fatalf("%q does not fit %q of %q", earlier, key, later)
		}
	}
}

// TestMatchKeyIsQuick has keys that take a way of trying all possibilities longer than the world has been there: as many
// steps as there are ways to choose 64 places of a million.
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
		if got := MatchKey(test.pattern, key); got != test.want {
			t.Errorf("MatchKey(%q, a million times a) is %t", test.pattern, got)
		}
	}
}

func TestMatchKeyAllocatesNothing(t *testing.T) {
	if n := testing.AllocsPerRun(100, func() { MatchKey("team-*/*admin*", "team-a/b/administrator") }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}
