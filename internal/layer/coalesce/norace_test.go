//go:build !race

package coalesce

// raceEnabled reports whether the race detector is enabled.
const raceEnabled = false
