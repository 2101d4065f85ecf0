//go:build race

package worstcase

// raceEnabled tells that the race detector watches. It makes the search fifteen times slower and, with a single
// goroutine, has nothing to find in it. So there is less of it then.
const raceEnabled = true
