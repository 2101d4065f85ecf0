//go:build race

package coalesce

// raceEnabled tells that the race detector watches. It drops a part of what is put into pools.
const raceEnabled = true
