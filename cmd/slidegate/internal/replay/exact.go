package replay

import "github.com/slidegate/slidegate/rule"

// maxLimits is how many limits a replay takes at once: a request notes in a word what the exact log says of each.
const maxLimits = 32

// exact is the exact log of the same limits on the same traffic, which the other ways to count are held against. It is
// made of tallies and so takes quotas that no store would.
type exact struct {
	lanes  []exactLane
	chunks chunks
	warm   int64 // keeps the compiler from leaving out what only warms the cache
}

type exactLane struct {
	quota       int64
	window      rule.Micros
	countDenied bool
	charged     []tally
}

func newExact(lanes []lane) *exact {
	e := &exact{}
	for i := range lanes {
		l := &lanes[i].limit
		e.lanes = append(e.lanes, exactLane{quota: l.Quota, window: l.Window, countDenied: l.CountDenied})
	}
	return e
}

// each notes in every request what an exact log says of it.
func (e *exact) each(requests []request) {
	for len(requests) > 0 {
		some := requests[:min(warmSize, len(requests))]
		requests = requests[len(some):]
		e.warmUp(some)
		for i := range some {
			some[i].fits = e.decide(&some[i])
		}
	}
}

func (e *exact) warmUp(some []request) {
	for i := range e.lanes {
		charged := e.lanes[i].charged
		for j := range some {
			if key := some[j].key; int(key) < len(charged) {
				e.warm += charged[key].sum
			}
		}
		for j := range some {
			if key := some[j].key; int(key) < len(charged) && charged[key].head != 0 {
				e.warm += int64(e.chunks.at(charged[key].head).used)
			}
		}
	}
}

// decide returns which limits admit the request, the first in the lowest bit. If all do, it is charged to them.
func (e *exact) decide(q *request) (fits uint32) {
	if q.cost == 0 {
		return 0 // it only looks, and is not judged
	}
	for i := range e.lanes {
		l := &e.lanes[i]
		l.charged = reach(l.charged, q.key)
		t := &l.charged[q.key]
		t.forget(&e.chunks, q.at, l.window)
		if t.sum+q.cost <= l.quota {
			fits |= 1 << i
		}
	}
	all := fits == 1<<len(e.lanes)-1
	for i := range e.lanes {
		if l := &e.lanes[i]; all || l.countDenied && fits>>i&1 == 0 && q.cost <= l.quota {
			l.charge(&e.chunks, q)
		}
	}
	return fits
}

// charge adds a request. Of refusals that count, the newest units up to the quota are enough: they alone fill it.
func (l *exactLane) charge(c *chunks, q *request) {
	t := &l.charged[q.key]
	t.add(c, q.at, q.cost)
	for t.sum-t.units >= l.quota {
		t.drop(c)
	}
}
