//go:build race

package memstore

import "testing"

// Alone skips a single-goroutine test that the race detector makes ten times slower and in which it has nothing to find.
// make test also runs it without the race detector.
func Alone(t *testing.T) {
	t.Helper()
	t.Skip("SKIPPED with the race detector: make test runs it without")
}
