package replay

import (
	"math"
	"slices"

	"github.com/slidegate/slidegate/rule"
)

// demand finds, for every key, the smallest quota that would never have refused it. As long as a key is not refused,
// a limit counts the same whatever its quota. So the smallest quota is the maximum of the units used and requested
// together if everything is admitted, and one pass covers all quotas. This does not hold for a token bucket, whose
// refill depends on the quota.
type demand struct {
	lane    lane
	tallies []tally // for a sliding log, whose state holds no more than its quota
	peaks   []int64
	charge  [1]rule.Item
	answer  [1]rule.Answer
}

func newDemand(limit rule.Limit) *demand { return &demand{lane: newLane(limit)} }

func (d *demand) add(q *request) {
	d.peaks = reach(d.peaks, q.key)
	var needed int64
	limit := &d.lane.limit
	if limit.Algorithm == rule.SlidingLog {
		if q.cost == 0 {
			return
		}
		d.tallies = reach(d.tallies, q.key)
		t := &d.tallies[q.key]
		t.forget(q.at, limit.Window)
		t.add(q.at, q.cost)
		needed = t.sum
	} else {
		d.lane.reach(q.key)
		state := d.lane.borrow(q.key)
		needed = limit.Used(state, q.at) + q.cost
		if q.cost > 0 {
			d.charge[0] = rule.Item{Limit: limit, State: state, Cost: q.cost}
			rule.Decide(rule.Charge, d.charge[:], q.at, d.answer[:])
		}
		d.lane.restore(q.key)
	}
	d.peaks[q.key] = max(d.peaks[q.key], needed)
}

// smallestQuota returns the smallest quota that refuses requests of at most allowed keys.
func (d *demand) smallestQuota(allowed int) int64 {
	peaks := slices.Clone(d.peaks)
	slices.SortFunc(peaks, func(a, b int64) int { return int(max(-1, min(1, b-a))) })
	if allowed >= len(peaks) {
		return 1
	}
	return min(max(1, peaks[allowed]), rule.MaxQuota)
}

// maxTouched returns the largest number of keys that is at most percent of keys.
func maxTouched(percent float64, keys int) int {
	return int(math.Floor(percent / 100 * float64(keys) * (1 + 1e-12)))
}

// quotaFromSweep returns the smallest quota of a sweep that touches at most allowed keys.
func quotaFromSweep(runs []*run, allowed int64) (int64, error) {
	for _, r := range runs {
		if r.touched <= allowed {
			return r.groups[0].Limits[0].Quota, nil
		}
	}
	return 0, invalid("Suggest", "every quota of the sweep touches more than %d keys; sweep to larger quotas", allowed)
}
