package lease

import (
	"math"
	"time"

	"github.com/slidegate/slidegate/rule"
)

// sighting is a reading of the store's clock, and the local times before and after it.
type sighting struct {
	at             rule.Micros
	sent, received int64
}

// stepped reports whether the store's clock has since gained on the local clock, so that a part that seems to be
// current may have ended: the clock was set, or another server answers now.
func (g sighting) stepped(at rule.Micros, sent, received int64) bool {
	if g.at == 0 {
		return false
	}
	passed := received - g.sent // at most
	return nanos(at-g.at) > passed+passed/1000+int64(time.Millisecond)
}

// nanos converts to nanoseconds, limited so that sums do not overflow.
func nanos(m rule.Micros) int64 {
	const limit = math.MaxInt64 / 4 / 1000
	return int64(min(m, limit)) * 1000
}
