//go:build !race

package worstcase

// raceEnabled tells that the race detector watches.
const raceEnabled = false
