//go:build race

package memstore

import "testing"

// Alone skips a test of a single goroutine that the race detector makes ten times as slow, and has nothing to find in. make
// test runs it without.
func Alone(t *testing.T) {
	t.Helper()
	t.Skip("SKIPPED with the race detector: it is run without")
}
