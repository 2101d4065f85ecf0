//go:build race

package worstcase

// raceEnabled reports whether the race detector is enabled. It makes the search fifteen times slower and, with a single
// goroutine, has nothing to find there, so the tests search less with it.
const raceEnabled = true
