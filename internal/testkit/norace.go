//go:build !race

package testkit

// Race reports whether the race detector is on: it empties pools, so allocations are counted without it, by make test too.
const Race = false
