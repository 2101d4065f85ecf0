package gate

import (
	"math/rand/v2"
	"time"
)

// inProcessInterval is the sample interval for a store in this process: one in this many decisions is timed, since reading
// the clock twice takes about as long as such a decision.
const inProcessInterval = 64

// sampleInterval returns the sample interval for stores: one in that many decisions is timed.
func sampleInterval(stores Stores) uint32 {
	if stores.Open != nil && stores.Open.Traits().RoundTrips > 0 {
		return 1
	}
	return inProcessInterval
}

// begin returns when a decision began, or the zero time if it is not timed.
func (g *Gate) begin() time.Time {
	if g.opts.Latency == nil || g.sampleInterval > 1 && rand.Uint32N(g.sampleInterval) != 0 {
		return time.Time{}
	}
	return time.Now()
}

// recordLatency records the latency of a decision of a policy.
func (p *compiled) recordLatency(listener Listener, began time.Time) {
	if !began.IsZero() && p.latency[listener] != nil {
		p.latency[listener].Record(time.Since(began))
	}
}
