// Package storetest is the Store contract as a suite of checks that an implementation of store.Store runs in one line.
// Every check sends the same requests to the store and to Reference, the simplest possible store, on the same virtual
// clock, and the answers must agree to the last microsecond and unit. Reference is also the worked example of how to write
// a Store.
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

// Open opens a store for one check. The store must take its time only from clock, for decisions and for expiry; a store
// that expires state by another clock in production must not do so here. It must have capacity for 20,000 live keys, so
// that no new key needs to inherit another's counts.
//
// The store may share its data with stores opened before: every check uses its own namespace. Close resources in t.Cleanup.
type Open func(t testing.TB, clock *Clock) store.Store

// Options configures a run. The zero value is what Run uses.
type Options struct {
	// Seed varies the random sequences. The same seed gives the same sequences, and failures report it. The zero value is a
	// fixed seed like any other, so that a suite that has passed once does not fail later by chance.
	Seed uint64
	// Short halves the number of decisions, as -short does: for a slow store that is compared with the rule elsewhere.
	Short bool
}

// Run runs all checks against stores that open opens, each as a subtest. It makes about 90,000 decisions in 65,000 round
// trips, and half of that with -short.
func Run(t *testing.T, open Open) {
	t.Helper()
	RunWith(t, open, Options{})
}

// RunWith is Run with options.
func RunWith(t *testing.T, open Open, opts Options) {
	t.Helper()
	s := &suite{open: open, seed: opts.Seed, short: opts.Short || testing.Short(), timeout: time.Minute}
	for _, c := range checks {
		t.Run(c.name, func(t *testing.T) { c.run(t, s) })
	}
}

// suite is what the checks of a run share.
type suite struct {
	open    Open
	seed    uint64
	short   bool
	timeout time.Duration // how long a store may take for concurrent requests before it counts as stuck
}

// check is one part of the contract. It takes a testing.TB so that the suite's own tests can observe its failure.
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
	{"other-limit", checkOtherLimit},
	{"default", checkDefault},
	{"in-flight", checkInFlight},
	{"holds", checkHolds},
	{"once", checkOnce},
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
	{"inspect", checkInspect},
}

// times reduces a number of repetitions for -short.
func (s *suite) times(n int) int {
	if s.short {
		return max(2, n/5)
	}
	return n
}
