//go:build race

package config

import "testing"

// alone skips a test of a single goroutine that the race detector makes ten times as slow, and has nothing to find in. make
// test runs it without.
func alone(t *testing.T) {
	t.Helper()
	t.Skip("SKIPPED with the race detector: it is run without")
}
