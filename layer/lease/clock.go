package lease

import (
	"sync/atomic"
	"time"
)

// clock is the local clock, in nanoseconds. It never goes back, and goes on while the machine is suspended.
//
// The monotonic clock of most systems stands still then. The wall clock does not, and is read in the same call; what it gains on
// the monotonic one is added to it. Somebody may also have set the wall clock ahead: then blocks end early, which is safe. If it
// was set back while the machine was suspended, so that it seems to have gained nothing, the keeper finds out at its next round,
// where the system has a clock for that (see suspended).
type clock struct {
	now    func() time.Duration // nil: the system's clocks
	base   time.Time
	boot   int64        // suspended, at base
	gained atomic.Int64 // the most that the wall clock was ahead of the monotonic one, since base
}

// notice is by how much a clock must have gained before it is heeded.
const notice = int64(time.Millisecond)

func newClock(now func() time.Duration) clock {
	return clock{now: now, base: time.Now(), boot: suspended()}
}

func (c *clock) read() int64 {
	if c.now != nil {
		return int64(c.now())
	}
	now := time.Now()
	monotonic := int64(now.Sub(c.base))
	gained := c.gained.Load()
	if gain := now.UnixNano() - c.base.UnixNano() - monotonic; gain > gained+notice {
		gained = c.raise(gain)
	}
	return monotonic + gained
}

// raise notes that a clock has gained on the monotonic one.
func (c *clock) raise(gain int64) int64 {
	for {
		gained := c.gained.Load()
		if gain <= gained || c.gained.CompareAndSwap(gained, gain) {
			return max(gain, gained)
		}
	}
}

// lookForSuspension heeds the time that the machine was suspended, by the system's own word.
func (c *clock) lookForSuspension() {
	if c.now != nil {
		return
	}
	if gain := suspended() - c.boot; gain > c.gained.Load()+100*notice {
		c.raise(gain)
	}
}
