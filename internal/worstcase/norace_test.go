//go:build !race

package worstcase

// raceEnabled reports whether the race detector is enabled.
const raceEnabled = false
