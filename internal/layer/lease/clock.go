package lease

import (
	"sync"
	"sync/atomic"
	"time"
)

// clock is the local clock, in nanoseconds. It never goes backwards, and continues while the machine is suspended.
//
// The monotonic clock of most systems stands still during a suspension. The wall clock does not, and is read in the
// same call; what it gains on the monotonic clock is added. The wall clock may also have been set ahead: then leases
// end early, which is safe. If it was set back while the machine was suspended, so that it seems to have gained
// nothing, the keeper detects it in its next round, where the system has a clock for that (see suspended).
type clock struct {
	now   func() time.Duration // nil means the system's clocks
	base  time.Time
	added atomic.Int64 // what is added to the monotonic clock; raised before seen is
	seen  atomic.Int64 // how far the wall clock was ahead of the monotonic clock, since base, when that was last counted

	mu      sync.Mutex // guards writes
	slept   int64      // how long the machine had been suspended when that was last counted
	checked int64      // added, at the keeper's last check
}

const (
	// minGain is how much the wall clock must have gained before it is counted.
	minGain = int64(time.Millisecond)
	// blur is how far two clocks may seem to differ because this process did not run between reading them. It bounds
	// what the keeper counts, since a mistake there would end leases early again and again.
	blur = int64(100 * time.Millisecond)
)

// setUp starts the clock. now replaces the system's clocks if it is not nil.
func (c *clock) setUp(now func() time.Duration) {
	c.now, c.base, c.slept = now, time.Now(), suspended()
}

func (c *clock) read() int64 {
	if c.now != nil {
		return int64(c.now())
	}
	monotonic, gain := c.system()
	return c.timeAt(monotonic, gain)
}

// system returns the monotonic time since base, and how far the wall clock has gained on it.
func (c *clock) system() (monotonic, gain int64) {
	now := time.Now()
	monotonic = int64(now.Sub(c.base))
	return monotonic, now.UnixNano() - c.base.UnixNano() - monotonic
}

// timeAt returns the time, given the readings of the system's clocks.
func (c *clock) timeAt(monotonic, gain int64) int64 {
	if gain > c.seen.Load()+minGain {
		c.mu.Lock()
		c.addGainLocked(gain)
		c.mu.Unlock()
	}
	return monotonic + c.added.Load()
}

// addGainLocked adds what the wall clock has gained.
func (c *clock) addGainLocked(gain int64) {
	if seen := c.seen.Load(); gain > seen+minGain {
		c.added.Add(gain - seen)
		c.seen.Store(gain)
	}
}

// checkSuspension records suspensions since the last check. The keeper calls it in every round.
func (c *clock) checkSuspension() {
	if c.now != nil {
		return
	}
	_, gain := c.system()
	c.recordSuspension(gain, suspended())
}

// recordSuspension detects a wall clock that was set back, so that what it gains from now on counts again, and adds the
// time that the machine was suspended according to the system, as far as the wall clock has not shown it.
func (c *clock) recordSuspension(gain, slept int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.addGainLocked(gain)
	if gain < c.seen.Load()-blur {
		c.seen.Store(gain)
	}
	if more := slept - c.slept; more > blur {
		c.slept = slept
		c.added.Add(max(0, more-(c.added.Load()-c.checked)))
	}
	c.checked = c.added.Load()
}
