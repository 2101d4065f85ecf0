//go:build !race

package memstore

import "testing"

// Alone does nothing without the race detector.
func Alone(*testing.T) {}
