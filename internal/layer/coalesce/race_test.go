//go:build race

package coalesce

// raceEnabled reports whether the race detector is enabled. It drops some of what is put into pools.
const raceEnabled = true
