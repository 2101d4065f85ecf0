// Package kit has helpers for tests with real servers: values whose creation cannot fail, and waiting for conditions.
package kit

import (
	"errors"
	"testing"
	"time"
)

const (
	patience = 30 * time.Second     // how long anything may take on a busy machine
	interval = 5 * time.Millisecond // how often a condition is checked
)

var errNotYet = errors.New("not yet")

// Eventually calls is every few milliseconds until it returns true. It fails the test if that takes more than half a minute;
// the failure names what was waited for.
func Eventually(t testing.TB, what string, is func() bool) {
	t.Helper()
	err := Retry(nil, func() error {
		if is() {
			return nil
		}
		return errNotYet
	})
	if err != nil {
		t.Fatalf("timed out after %v: %s", patience, what)
	}
}

// Retry calls try every few milliseconds until it returns nil or an error that wraps final, and for at most half a
// minute. It returns the last error. If final is nil, no error ends it early.
func Retry(final error, try func() error) error {
	late := time.After(patience)
	tick := time.NewTicker(interval)
	defer tick.Stop()
	for {
		err := try()
		if err == nil || final != nil && errors.Is(err, final) {
			return err
		}
		select {
		case <-late:
			return err
		case <-tick.C:
		}
	}
}

// Must returns a function that returns value, or fails the given test if err is not nil. It is for calls that cannot fail in
// a test: kit.Must(memstore.New(opts))(t).
func Must[T any](value T, err error) func(testing.TB) T {
	return func(t testing.TB) T {
		t.Helper()
		if err != nil {
			t.Fatalf("got error %v, want none", err)
		}
		return value
	}
}
