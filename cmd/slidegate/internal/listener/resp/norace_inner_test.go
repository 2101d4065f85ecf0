//go:build !race

package resp

// raceEnabled reports whether the race detector is enabled, which allocates.
const raceEnabled = false
