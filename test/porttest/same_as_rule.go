package porttest

import (
	"fmt"
	"testing"
	"time"

	"github.com/slidegate/slidegate/rule"
	"pgregory.net/rapid"
)

// Options configures the requests to a store. The zero value is valid, and covers everything.
type Options struct {
	// OneKey is for a store whose keys may be on different servers: without a group, each request is for one key, under
	// several limits.
	OneKey bool
	// Algorithms are those of the limits, whose windows then have one part. Empty means all, in any number of parts.
	Algorithms []rule.Algorithm
	// InParts allows windows in any number of parts also with Algorithms.
	InParts bool
	// MaxQuota is the largest quota and the largest burst; 0 means all that the store accepts.
	MaxQuota int64
	// Moment moves the clock, sends requests and compares; it is called many times in a script. Nil means Script.Moment.
	Moment func(*Script)
}

// SameAsRule checks that a store decides as the rule in Go does, bit for bit: over the whole accepted range of limits,
// states that all operations lead to, limits that change over them, repeated settlements, and clocks that jump. Use
// -rapid.checks to try more than the default.
func SameAsRule(t *testing.T, open Open, opts Options) {
	t.Helper()
	if opts.Moment == nil {
		opts.Moment = (*Script).Moment
	}
	decided, scripts, run := 0, 0, time.Now().UnixNano() // no script finds states of another, or of another run
	rapid.Check(t, func(rt *rapid.T) {
		scripts++
		w := NewTwin(t, open)
		g := newScript(rt, w, fmt.Sprintf("%d-%d", run, scripts), opts)
		for range 30 {
			opts.Moment(g)
		}
		decided += w.decided
	})
	t.Logf("%d decisions compared", decided)
}
