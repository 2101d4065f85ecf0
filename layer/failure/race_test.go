//go:build race

package failure_test

// raceEnabled: the race detector makes pools forget things at random.
const raceEnabled = true
