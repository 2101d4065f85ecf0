package replay

import (
	"github.com/slidegate/slidegate"
	"github.com/slidegate/slidegate/rule"
)

// trails replays a few keys of the first group and records their exact counts over time.
type trails struct {
	run     *run
	limit   rule.Limit // the first limit, whose window the counts are for
	line    Timeline
	numbers map[uint32]uint32 // the followed keys
	byKey   []trail
}

// trail holds the counts of one key.
type trail struct {
	requested, admitted curve
}

// curve is the exact count in each bucket of the timeline.
type curve struct {
	tally  tally
	points []int64
}

func newTrails(limits []slidegate.Limit, line Timeline, keys []keyRef) (*trails, error) {
	r, err := newRun("", onlyGroup(limits), false)
	if err != nil {
		return nil, err
	}
	t := &trails{run: r, limit: r.groups[0].lanes[0].limit, line: line, numbers: map[uint32]uint32{}, byKey: make([]trail, len(keys))}
	for i, key := range keys {
		t.numbers[key.key] = uint32(i)
	}
	return t, nil
}

func (t *trails) add(q *request) {
	number, followed := t.numbers[q.key]
	if !followed {
		return
	}
	own := [1]request{*q}
	own[0].key = number
	allowed := t.run.decide(own[:])
	key := &t.byKey[number]
	t.record(&key.requested, q.at, q.cost)
	if allowed {
		t.record(&key.admitted, q.at, q.cost)
	}
}

// record adds units to a curve.
func (t *trails) record(c *curve, at rule.Micros, units int64) {
	t.extend(c, t.bucket(at))
	c.tally.forgetFor(at, &t.limit)
	c.tally.add(at, units)
	last := len(c.points) - 1
	c.points[last] = max(c.points[last], c.tally.sum)
}

func (t *trails) bucket(at rule.Micros) int {
	return min(max(0, int((at-t.line.From)/t.line.Width)), len(t.line.Buckets)-1)
}

// extend extends the curve up to the bucket with the index to. In a bucket to which nothing is added, the count is
// highest at the start.
func (t *trails) extend(c *curve, to int) {
	for len(c.points) <= to {
		begins := t.line.From + rule.Micros(len(c.points))*t.line.Width
		c.tally.forgetFor(begins, &t.limit)
		c.points = append(c.points, c.tally.sum)
	}
}

func (t *trails) findings(keys []keyRef, names *keys, r *run) []Trail {
	var found []Trail
	for i, key := range keys {
		own := &t.byKey[i]
		t.extend(&own.requested, len(t.line.Buckets)-1)
		t.extend(&own.admitted, len(t.line.Buckets)-1)
		k := &r.groups[key.group].keys[key.key]
		found = append(found, Trail{
			Key: names.name(key.key), Requests: k.requests, Refused: k.refused,
			Requested: own.requested.points, Admitted: own.admitted.points,
		})
	}
	return found
}
