package config

import (
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/slidegate/slidegate/internal/keyform"
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

// TestCoveredPatterns checks how overrides that are never reached are found: a pattern that matches another one literally
// matches all of its keys, and otherwise there is a key that it does not match.
func TestCoveredPatterns(t *testing.T) {
	random := seeded(t)
	for range 10_000 {
		earlier := drawText(random, 6, "a", "b", "*") + "*" + drawText(random, 3, "a", "b", "*")
		later := drawText(random, 8, "a", "b", "*")
		fits := func(key string) bool { return keyform.Fits(earlier, key) }
		var seen matches
		compared := 0
		seen.add(keyform.Match{Key: earlier, Pattern: true}, 1)
		_, covered := seen.cover(keyform.Match{Key: later, Pattern: strings.Contains(later, "*")}, &compared)
		if !covered {
			if key := strings.ReplaceAll(later, "*", "c"); fits(key) {
				t.Fatalf("%q matches %q of %q, want it to be covered", earlier, key, later)
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
		if !fits(key) {
			t.Fatalf("%q does not match %q of %q, want it not to be covered", earlier, key, later)
		}
	}
}
