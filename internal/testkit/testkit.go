// Package testkit holds what the tests of this module share. It uses only the standard library, and only tests import it.
package testkit

import (
	"testing"
	"testing/synctest"
	"time"
)

// Must returns a function that returns value, or fails the given test if err is not nil. It shortens calls that do not fail
// in a test: testkit.Must(memstore.New(opts))(t).
func Must[T any](value T, err error) func(testing.TB) T {
	return func(t testing.TB) T {
		t.Helper()
		if err != nil {
			t.Fatalf("got the error %v, want none", err)
		}
		return value
	}
}

// Pass lets time pass in a synctest bubble, and waits until everything that is due has been done. Elsewhere it panics,
// because tests must not wait for a real clock.
func Pass(d time.Duration) {
	synctest.Wait()
	<-time.After(d)
	synctest.Wait()
}

// Delay lets time pass in a synctest bubble for the calling goroutine, like the delay of a request to a store. Unlike Pass,
// it may be called concurrently. Elsewhere it panics, because tests must not wait for a real clock.
func Delay(d time.Duration) {
	if time.Now().Year() >= 2020 { // bubbles start in the year 2000
		panic("testkit: Delay was called outside a synctest bubble")
	}
	<-time.After(d)
}
