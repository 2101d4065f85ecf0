package lease

import (
	"math"
	"time"

	"github.com/slidegate/slidegate/rule"
)

// sighting is a moment of the store's clock, and between which moments of the local one it was.
type sighting struct {
	at          rule.Micros
	sent, heard int64
}

// stepped reports whether the store's clock has gained on the local one since, so that a part may have ended which seems to go
// on: it was set, or another server answers now.
func (g sighting) stepped(at rule.Micros, sent, heard int64) bool {
	if g.at == 0 {
		return false
	}
	passed := heard - g.sent // at the most
	return nanos(at-g.at) > passed+passed/1000+int64(time.Millisecond)
}

// nanos returns a length of time in nanoseconds, or as many as there can be.
func nanos(m rule.Micros) int64 {
	const most = math.MaxInt64 / 4 / 1000
	return int64(min(m, most)) * 1000
}
