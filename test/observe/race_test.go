//go:build race

package observe_test

// raceEnabled: with the race detector, a sync.Pool drops some of what it is given, so that more is made anew.
const raceEnabled = true
