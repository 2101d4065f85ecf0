// Package testkit is what tests of the packages of this module have in common. It needs the standard library alone, and
// only tests import it.
package testkit

import (
	"testing"
	"testing/synctest"
	"time"
)

// Must returns a function that returns value, or fails the test it is given if err is not nil. It makes short work of what
// cannot fail in a test: testkit.Must(memstore.New(opts))(t).
func Must[T any](value T, err error) func(testing.TB) T {
	return func(t testing.TB) T {
		t.Helper()
		if err != nil {
			t.Fatalf("got the error %v, want none", err)
		}
		return value
	}
}

// Pass lets time pass in a bubble of synctest, until all that is due has been done. Elsewhere it panics: no test waits for a
// real clock.
func Pass(d time.Duration) {
	synctest.Wait()
	<-time.After(d)
	synctest.Wait()
}

// Delay lets time pass in a bubble of synctest for the goroutine that calls it, as on the way to a store. Unlike Pass, several
// may call it at once. Elsewhere it panics: no test waits for a real clock.
func Delay(d time.Duration) {
	if time.Now().Year() >= 2020 { // bubbles begin with the year 2000
		panic("testkit: Delay was called outside of a bubble of synctest")
	}
	<-time.After(d)
}
