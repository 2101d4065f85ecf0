//go:build race

package config

import "testing"

// skipUnderRace skips a single-goroutine test, which the race detector makes ten times slower and in which it has nothing to find. make
// test also runs it without the race detector.
func skipUnderRace(t *testing.T) {
	t.Helper()
	t.Skip("SKIPPED with the race detector; it is run without it")
}
