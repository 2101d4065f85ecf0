//go:build race

package observe_test

// raceEnabled reports whether the race detector is enabled. With it, a sync.Pool drops some of its items, so that more
// are allocated.
const raceEnabled = true
