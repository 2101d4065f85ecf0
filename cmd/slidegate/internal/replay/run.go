package replay

import (
	"slices"

	"github.com/slidegate/slidegate"
	"github.com/slidegate/slidegate/rule"
)

// run is one set of limits that the traffic goes through.
type run struct {
	name     string
	limits   []slidegate.Limit
	lanes    []lane
	measures []*measure // one a lane, or none if only the counts are asked for
	itself   bool       // it is an exact log, which is never wrong
	keys     []keyRun

	admitted, denied           int64
	unitsAdmitted, unitsDenied int64
	touched                    int64
	lockout                    lockout
	latest                     rule.Micros // of all requests

	answers []rule.Answer
	items   []rule.Item
	warm    int64 // keeps the compiler from leaving out what only warms the cache
}

// keyRun is what happened to one key.
type keyRun struct {
	requests    int64
	denied      int64
	lockedSince rule.Micros // the first refusal of a row of them
	opens       rule.Micros // when the last of them would be admitted; 0 if there is none
	lockout     rule.Micros // the longest so far
}

// lockout is the longest of all.
type lockout struct {
	key    uint32
	from   rule.Micros
	length rule.Micros
	over   bool
}

// newRun makes a run over limits. With measured it finds out how well they do, for which requests are to go through an
// exact log first.
func newRun(name string, limits []slidegate.Limit, measured bool) (*run, error) {
	r := &run{name: name, limits: limits, itself: true, answers: make([]rule.Answer, len(limits)), items: make([]rule.Item, len(limits))}
	for _, limit := range limits {
		bound, err := slidegate.Bind("", limit)
		if err != nil {
			return nil, err
		}
		r.lanes = append(r.lanes, newLane(*bound.Rule()))
		r.itself = r.itself && limit.Algorithm == slidegate.SlidingLog
	}
	for i := range r.lanes {
		if measured {
			r.measures = append(r.measures, &measure{census: newCensus(r.lanes[i].horizon())})
		}
	}
	return r, nil
}

// warmSize is how many requests' states are fetched from memory together.
const warmSize = 16

// each decides requests in their order and calls decided after every one. The states of many keys do not fit into the
// processor's cache; it fetches those of several requests at once if it hears of them early.
func (r *run) each(requests []request, decided func(q *request, allowed bool)) {
	for len(requests) > 0 {
		some := requests[:min(warmSize, len(requests))]
		requests = requests[len(some):]
		r.warmUp(some)
		for i := range some {
			decided(&some[i], r.decide(&some[i]))
		}
	}
}

func (r *run) warmUp(some []request) {
	for i := range some {
		key := some[i].key
		if int(key) < len(r.keys) {
			r.warm += r.keys[key].denied
		}
		for l := range r.lanes {
			r.warm += r.lanes[l].warmUp(key)
		}
		for _, m := range r.measures {
			r.warm += m.warmUp(key)
		}
	}
	for i := range some {
		for _, m := range r.measures {
			r.warm += m.warmUpMore(some[i].key)
		}
	}
}

// decide lets one request through or refuses it, and leaves what each limit said in r.answers.
func (r *run) decide(q *request) (allowed bool) {
	for i, m := range r.measures {
		m.begin(&r.lanes[i], q)
	}
	if len(r.lanes) == 1 {
		r.answers[0] = r.lanes[0].take(q.key, q.at, q.cost)
		allowed = r.answers[0].Allowed
	} else {
		allowed = r.decideAll(q)
	}
	for i, m := range r.measures {
		admits := r.answers[i].Allowed
		fits := q.fits>>i&1 != 0
		if r.itself {
			fits = admits
		}
		m.end(&r.lanes[i], q, fits, admits, allowed)
	}
	r.count(q, allowed)
	return allowed
}

// decideAll decides over several limits at once.
func (r *run) decideAll(q *request) (allowed bool) {
	for i := range r.lanes {
		l := &r.lanes[i]
		l.reach(q.key)
		r.items[i] = rule.Item{Limit: &l.limit, State: l.borrow(q.key), Cost: q.cost}
	}
	rule.Decide(rule.Take, r.items, q.at, r.answers)
	allowed = true
	for i := range r.lanes {
		r.lanes[i].restore(q.key)
		allowed = allowed && r.answers[i].Allowed
	}
	return allowed
}

func (r *run) count(q *request, allowed bool) {
	r.keys = reach(r.keys, q.key)
	r.latest = max(r.latest, q.at)
	k := &r.keys[q.key]
	k.requests++
	if allowed {
		r.admitted++
		r.unitsAdmitted += q.cost
		if k.opens != 0 && q.cost > 0 {
			r.unlock(q.key, k, q.at, true)
		}
		return
	}
	r.denied++
	r.unitsDenied += q.cost
	if k.denied == 0 {
		r.touched++
	}
	k.denied++
	if k.opens != 0 && q.at > k.opens {
		r.unlock(q.key, k, q.at, true) // it could have come in meanwhile, and did not try
	}
	if k.opens == 0 {
		k.lockedSince = q.at
	}
	k.opens = max(k.opens, q.at+r.wait())
}

// wait returns how long the request that was just refused has to wait, 0 if no waiting helps.
func (r *run) wait() (longest rule.Micros) {
	for i := range r.answers {
		if a := &r.answers[i]; !a.Allowed && a.RetryAfter != rule.Never {
			longest = max(longest, a.RetryAfter)
		}
	}
	return longest
}

// unlock ends the lock-out of a key: when it is admitted, or when it would have been.
func (r *run) unlock(key uint32, k *keyRun, now rule.Micros, over bool) {
	length := min(now, k.opens) - k.lockedSince
	k.lockout = max(k.lockout, length)
	if l := &r.lockout; length > l.length {
		*l = lockout{key: key, from: k.lockedSince, length: length, over: over}
	}
	k.opens = 0
}

// close ends the lock-outs that the traffic did not see the end of.
func (r *run) close() {
	for key := range r.keys {
		if k := &r.keys[key]; k.opens != 0 {
			r.unlock(uint32(key), k, k.opens, k.opens <= r.latest)
		}
	}
}

// outcome returns what the run did, with the keys that were denied most.
func (r *run) outcome(names *keys, top int) Outcome {
	r.close()
	o := Outcome{
		Name: r.name, Admitted: r.admitted, Denied: r.denied,
		UnitsAdmitted: r.unitsAdmitted, UnitsDenied: r.unitsDenied, KeysTouched: r.touched,
		TopDenied: []KeyOutcome{},
	}
	for i, limit := range r.limits {
		found := LimitOutcome{Limit: limit.String(), Quota: limit.Quota, Window: rule.Micros(limit.Window.Microseconds())}
		if r.measures != nil {
			m := r.measures[i]
			found.Denied, found.WrongAdmitted, found.WrongDenied = m.denied, m.wrongAdmitted, m.wrongDenied
			if m.highest > 0 {
				found.Highest = Highest{Units: m.highest, Key: names.name(m.highestKey), At: m.highestAt}
			}
			found.LiveKeys, found.StateBytes = m.census.most.keys, m.census.most.bytes
		}
		o.Limits = append(o.Limits, found)
	}
	if l := r.lockout; l.length > 0 {
		o.Lockout = Lockout{Key: names.name(l.key), From: l.from, Length: l.length, Ended: l.over}
	}
	for _, key := range r.worst(top) {
		k := &r.keys[key]
		o.TopDenied = append(o.TopDenied, KeyOutcome{Key: names.name(key), Requests: k.requests, Denied: k.denied, Lockout: k.lockout})
	}
	return o
}

// worst returns at most n keys that were denied, the most denied first; among equals, the one that came first.
func (r *run) worst(n int) []uint32 {
	var list []uint32
	for key := range r.keys {
		if r.keys[key].denied == 0 || n == 0 {
			continue
		}
		if len(list) == n && r.keys[key].denied <= r.keys[list[n-1]].denied {
			continue
		}
		at, _ := slices.BinarySearchFunc(list, r.keys[key].denied, func(k uint32, denied int64) int {
			if r.keys[k].denied >= denied {
				return -1
			}
			return 1
		})
		list = slices.Insert(list, at, uint32(key))
		if len(list) > n {
			list = list[:n]
		}
	}
	return list
}
