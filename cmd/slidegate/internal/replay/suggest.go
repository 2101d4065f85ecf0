package replay

import (
	"math"
	"slices"

	"github.com/slidegate/slidegate/rule"
)

// demand finds, for every key, the smallest quota that would never have refused it. As long as a key is not refused,
// a limit counts the same whatever its quota. So the smallest quota is the maximum of the units used and requested
// together if everything is admitted, and one pass covers all quotas. This does not hold for a token bucket, whose
// refill depends on the quota. A limit that names no algorithm counts in two ways, by its quota, so it has two maxima.
type demand struct {
	lane    lane
	tallies []tally // for a log, whose state holds no more than its quota
	peaks   []int64 // of a lane
	inLog   []int64 // the peaks of tallies; for a limit without a named algorithm they are those of small quotas
	charge  [1]rule.Item
	answer  [1]rule.Answer
}

func newDemand(limit rule.Limit) *demand {
	if limit.Algorithm == rule.DefaultAlgorithm {
		limit.Quota = rule.MaxQuota // so that its states are in parts
	}
	return &demand{lane: newLane(limit)}
}

// usesLogs and usesLane report which of the peaks are needed.
func (d *demand) usesLogs() bool {
	return d.lane.usesLogs() || d.lane.usesEither() && !d.lane.limit.Lease
}

func (d *demand) usesLane() bool { return !d.lane.usesLogs() }

func (d *demand) add(q *request) {
	if d.usesLogs() {
		d.inLog = reach(d.inLog, q.key)
		d.inLog[q.key] = max(d.inLog[q.key], d.addToLog(q))
	}
	if d.usesLane() {
		d.peaks = reach(d.peaks, q.key)
		d.peaks[q.key] = max(d.peaks[q.key], d.addToLane(q))
	}
}

// addToLog counts a request in a log of any length, and returns the quota that it needs.
func (d *demand) addToLog(q *request) (needed int64) {
	if q.cost == 0 {
		return 0
	}
	d.tallies = reach(d.tallies, q.key)
	t := &d.tallies[q.key]
	t.forget(q.at, d.lane.limit.Window)
	t.add(q.at, q.cost)
	return t.sum
}

// addToLane charges a request, and returns the quota that it needs.
func (d *demand) addToLane(q *request) (needed int64) {
	d.lane.reach(q.key)
	limit, state := &d.lane.limit, d.lane.borrow(q.key)
	needed = limit.Used(state, q.at) + q.cost
	if q.cost > 0 {
		d.charge[0] = rule.Item{Limit: limit, State: state, Cost: q.cost}
		rule.Decide(rule.Charge, d.charge[:], q.at, d.answer[:])
	}
	d.lane.restore(q.key)
	return needed
}

// smallestQuota returns the smallest quota that refuses requests of at most allowed keys.
func (d *demand) smallestQuota(allowed int) int64 {
	if !d.usesLogs() {
		return smallestOf(d.peaks, allowed)
	}
	quota := smallestOf(d.inLog, allowed)
	if d.usesLane() && quota > rule.DefaultLog {
		quota = smallestOf(d.peaks, allowed) // at least as much: parts count a unit for longer than a log
	}
	return quota
}

// smallestOf returns the smallest quota that is below at most allowed of the peaks.
func smallestOf(peaks []int64, allowed int) int64 {
	peaks = slices.Clone(peaks)
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
