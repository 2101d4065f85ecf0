package gate

import (
	"math/rand/v2"
	"time"
)

// nearbyEvery is of how many decisions one is timed where the store is in this process: reading the clock twice takes about as long as
// such a decision.
const nearbyEvery = 64

// timedEvery returns of how many decisions one is timed.
func timedEvery(stores Stores) uint32 {
	if stores.Open != nil && stores.Open.Traits().RoundTrips > 0 {
		return 1
	}
	return nearbyEvery
}

// begin returns when a decision began, or the zero time if it is not timed.
func (g *Gate) begin() time.Time {
	if g.opts.Latency == nil || g.every > 1 && rand.Uint32N(g.every) != 0 {
		return time.Time{}
	}
	return time.Now()
}

// took records how long a decision of a policy has taken.
func (p *compiled) took(door Door, began time.Time) {
	if !began.IsZero() && p.latency[door] != nil {
		p.latency[door].Record(time.Since(began))
	}
}
