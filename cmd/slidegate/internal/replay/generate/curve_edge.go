package generate

import (
	"math/bits"

	"github.com/slidegate/slidegate/rule"
)

const (
	burstRequests = 120 // the number of requests of a burst on both sides of the boundary, if there are enough keys
	minEdgeKeys   = 20  // the minimum number of edge keys, unless there are fewer users
	burstPart     = 25  // a burst extends from 1/25 (4 %) of a window before the boundary to 1/25 after it
)

// edgePlan determines at which boundaries edge keys burst, and how many at each. A few full bursts have an effect that
// many thin ones do not: if there are too few requests for bursts at every boundary, some boundaries are skipped, evenly
// spread.
type edgePlan struct {
	from, to, window rule.Micros
	first            int64 // the number of the first boundary, in windows since the Unix epoch
	boundaries       int64 // the number of boundaries
	used             int64 // the number of boundaries with bursts
	group            int64 // the number of keys that burst at a boundary
	keys             int64 // the number of edge keys
}

// planEdges plans bursts with the given total number of requests. The span must contain a boundary.
func planEdges(o Options, requests int64) edgePlan {
	p := edgePlan{window: rule.Micros(o.Window.Microseconds()), boundaries: o.boundaries()}
	p.from, p.to = o.interval()
	p.first = int64(p.from/p.window) + 1
	bursts := max(1, requests/burstRequests)
	p.used = min(p.boundaries, bursts)
	p.group = bursts / p.used
	p.keys = min(int64(o.Keys), max(minEdgeKeys, 4*p.group))
	// A key that bursts at a boundary is quiet at the next one, so that there are never two bursts in one fixed window.
	p.group = min(p.group, max(1, p.keys/2))
	return p
}

func (p edgePlan) total() uint64 { return uint64(p.used) }

func (p edgePlan) piece(i int64) piece {
	// The middle of the i-th of p.used equal parts of all boundaries.
	high, low := bits.Mul64(uint64(2*i+1), uint64(p.boundaries))
	index, _ := bits.Div64(high, low, uint64(2*p.used))
	boundary := rule.Micros(p.first+int64(index)) * p.window
	reach := p.window / burstPart
	return piece{max(p.from, boundary-reach), min(p.to, boundary+reach), 1}
}

// key picks one of the keys that burst at the i-th used boundary.
func (p edgePlan) key(share uint64, i int64) int64 {
	return (i*p.group+scale(share, p.group))%p.keys + 1
}
