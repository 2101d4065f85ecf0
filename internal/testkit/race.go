//go:build race

package testkit

// Race reports whether the race detector is enabled. It empties pools, so tests count allocations only without it; make
// test runs them that way too.
const Race = true
