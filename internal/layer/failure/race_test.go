//go:build race

package failure_test

// raceEnabled reports whether the race detector is enabled, which makes pools drop items at random.
const raceEnabled = true
