package generate

import (
	"math/bits"

	"github.com/slidegate/slidegate/rule"
)

const (
	burstRequests = 120 // how many requests a burst has over both sides of the boundary, if there are keys enough
	fewestEdges   = 20  // how many edge keys there are at least, if there are as many users
	burstPart     = 25  // a burst begins and ends this part of a window away from the boundary: 4 %
)

// edgePlan says at which boundaries edge keys burst, and how many at each. A few full bursts show what many thin ones would
// not: so where there are too few requests for bursts at every boundary, some are left out, evenly spread.
type edgePlan struct {
	from, to, window rule.Micros
	first            int64 // the number of the first boundary, in windows since the Unix epoch
	boundaries       int64 // how many there are
	used             int64 // at how many of them there are bursts
	group            int64 // how many keys burst at a boundary
	keys             int64 // how many edge keys there are
}

// planEdges plans bursts of so many requests in all. The options must have a boundary in their span.
func planEdges(o Options, requests int64) edgePlan {
	p := edgePlan{window: rule.Micros(o.Window.Microseconds()), boundaries: o.boundaries()}
	p.from, p.to = o.interval()
	p.first = int64(p.from/p.window) + 1
	bursts := max(1, requests/burstRequests)
	p.used = min(p.boundaries, bursts)
	p.group = bursts / p.used
	p.keys = min(int64(o.Keys), max(fewestEdges, 4*p.group))
	// A key that bursts at a boundary is quiet at the next one, so that a fixed window never sees two bursts in one window.
	p.group = min(p.group, max(1, p.keys/2))
	return p
}

func (p edgePlan) total() uint64 { return uint64(p.used) }

func (p edgePlan) piece(i int64) piece {
	// The middle of the i-th of so many equal parts of all boundaries.
	high, low := bits.Mul64(uint64(2*i+1), uint64(p.boundaries))
	place, _ := bits.Div64(high, low, uint64(2*p.used))
	boundary := rule.Micros(p.first+int64(place)) * p.window
	reach := p.window / burstPart
	return piece{max(p.from, boundary-reach), min(p.to, boundary+reach), 1}
}

// key picks one of the keys that burst at the i-th boundary that is used.
func (p edgePlan) key(share uint64, i int64) int64 {
	return (i*p.group+scale(share, p.group))%p.keys + 1
}
