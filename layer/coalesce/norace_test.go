//go:build !race

package coalesce

// raceEnabled tells that the race detector watches.
const raceEnabled = false
