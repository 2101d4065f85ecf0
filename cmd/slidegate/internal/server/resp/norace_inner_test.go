//go:build !race

package resp

// raceEnabled tells that the race detector is at work, which allocates.
const raceEnabled = false
