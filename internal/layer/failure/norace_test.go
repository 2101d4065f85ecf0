//go:build !race

package failure_test

const raceEnabled = false
