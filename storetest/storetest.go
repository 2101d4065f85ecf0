// Package storetest is the Store contract as a suite of checks that an implementation of store.Store runs in one line.
// Every check asks the store and Reference, the slowest obvious store, the same things on the same virtual clock, and
// the answers must agree to the last microsecond and unit. Reference is also the worked example of how to write a Store.
//
//	func TestStore(t *testing.T) {
//		storetest.Run(t, func(t testing.TB, clock *storetest.Clock) store.Store {
//			return mystore.New(mystore.Options{Now: clock.Now})
//		})
//	}
package storetest

import (
	"testing"
	"time"

	"github.com/slidegate/slidegate/store"
)

// Open opens a store for one check. The store takes its time from clock alone, to decide and to forget; a store that
// forgets by another clock in production must not forget by it here. It must have room for 20,000 live keys, so that it
// need not let a new key inherit another's counts.
//
// The store may share its data with stores opened before: every check uses a namespace that no other uses. What is to be
// closed is closed in t.Cleanup.
type Open func(t testing.TB, clock *Clock) store.Store

// Options are what a run may have besides a store. The zero value is what Run uses.
type Options struct {
	// Seed varies the random sequences. The same seed gives the same sequences, and failures name it; the zero value is
	// a seed like any other, so that a suite that passed once does not fail tomorrow by chance.
	Seed uint64
	// Short makes half as many decisions, as -short does: for a store that takes long over each and is compared with the rule elsewhere.
	Short bool
}

// Run runs all checks against stores that open opens, each as a subtest. It takes some 75,000 decisions in 50,000
// round trips, and half of that with -short.
func Run(t *testing.T, open Open) {
	t.Helper()
	RunWith(t, open, Options{})
}

// RunWith is Run with options.
func RunWith(t *testing.T, open Open, opts Options) {
	t.Helper()
	s := &suite{open: open, seed: opts.Seed, short: opts.Short || testing.Short(), patience: time.Minute}
	for _, c := range checks {
		t.Run(c.name, func(t *testing.T) { c.run(t, s) })
	}
}

// suite is what the checks of a run have in common.
type suite struct {
	open     Open
	seed     uint64
	short    bool
	patience time.Duration // how long a store may take over what a check does at once, before it counts as stuck
}

// check is one part of the contract. It takes a testing.TB so that the suite's own tests can watch it fail.
type check struct {
	name string
	run  func(t testing.TB, s *suite)
}

var checks = []check{
	{"traits", checkTraits},
	{"rule", checkRule},
	{"clock", checkClock},
	{"batch", checkBatch},
	{"single-taker", checkSingleTaker},
	{"several-limits", checkSeveralLimits},
	{"give-back", checkGiveBack},
	{"settle", checkSettle},
	{"in-flight", checkInFlight},
	{"calendar", checkCalendar},
	{"read-only", checkReadOnly},
	{"expiry", checkExpiry},
	{"keys", checkKeys},
	{"state", checkState},
	{"errors", checkErrors},
	{"race", checkRace},
	{"race-several-limits", checkRaceSeveralLimits},
	{"limiter", checkLimiter},
	{"declare", checkDeclare},
}

// times cuts a number of repetitions down for -short.
func (s *suite) times(n int) int {
	if s.short {
		return max(2, n/5)
	}
	return n
}
