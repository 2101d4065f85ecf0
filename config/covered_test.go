package config

import (
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// TestCoveredPatterns checks how overrides that are never reached are found: a pattern that fits another as it is written
// fits all keys of it, and otherwise there is a key that it does not fit.
func TestCoveredPatterns(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		earlier := rapid.StringMatching(`[ab*]{0,6}\*[ab*]{0,3}`).Draw(t, "earlier")
		later := rapid.StringMatching(`[ab*]{0,8}`).Draw(t, "later")
		fits := Override{Key: earlier, Pattern: true}.Fits
		var seen reach
		seen.add(Override{Key: earlier, Pattern: true}, 1)
		_, covered := seen.before(Override{Key: later, Pattern: strings.Contains(later, "*")})
		if !covered {
			if key := strings.ReplaceAll(later, "*", "c"); fits(key) {
				t.Fatalf("%q fits %q of %q", earlier, key, later)
			}
			return
		}
		key := ""
		for _, c := range later {
			if c != '*' {
				key += string(c)
				continue
			}
			key += rapid.StringMatching(`[abc]{0,4}`).Draw(t, "run")
		}
		if !fits(key) {
			t.Fatalf("%q does not fit %q of %q", earlier, key, later)
		}
	})
}
