package replay

import "github.com/slidegate/slidegate/rule"

// maxLimits is the maximum number of limits of a replay: each is one bit of request.fits.
const maxLimits = 32

// exact is an exact log of the same limits on the same traffic, with which the algorithms are compared. It consists of
// tallies, and so supports larger quotas than the stores do. For calendar windows it holds the units of the period.
type exact struct {
	groups []exactGroup
}

// exactGroup is one group of keys.
type exactGroup struct {
	group *group
	lanes []exactLane
}

type exactLane struct {
	limit   *rule.Limit
	charged []tally
}

func newExact(groups []group) *exact {
	e := &exact{groups: make([]exactGroup, len(groups))}
	for i := range groups {
		own := &e.groups[i]
		own.group = &groups[i]
		for j := range groups[i].lanes {
			l := &groups[i].lanes[j].limit
			own.lanes = append(own.lanes, exactLane{limit: l})
		}
	}
	return e
}

// each sets fits in every request to the decisions of the exact log.
func (e *exact) each(requests []request) {
	for parts := range wholeOnes(requests) {
		e.decide(parts)
	}
}

// decide sets fits in the parts of a request. If all limits that decide admit it, it is charged to them; shadow policies
// are charged independently. A request that costs nothing charges nothing, and is not compared: under a policy, it must admit one
// unit.
func (e *exact) decide(parts []request) {
	all := true
	for i := range parts {
		q := &parts[i]
		g := &e.groups[q.group]
		if g.group.refuses() {
			all = false
		}
		if q.fits = e.admitting(g, q); !g.group.Shadow && (q.cost > 0 || g.group.checks(q.cost) && g.group.Policy != "") {
			all = all && q.fits == 1<<len(g.lanes)-1
		}
	}
	for i := range parts {
		q := &parts[i]
		g := &e.groups[q.group]
		if q.cost == 0 || e.refused(parts) {
			continue
		}
		fits := all
		if g.group.Shadow {
			fits = q.fits == 1<<len(g.lanes)-1
		}
		for i := range g.lanes {
			if l := &g.lanes[i]; fits || l.limit.CountRefused && q.fits>>i&1 == 0 && q.cost <= l.limit.Quota {
				l.charge(q)
			}
		}
	}
}

// refused reports whether a block list refuses the request.
func (e *exact) refused(parts []request) bool {
	for i := range parts {
		if e.groups[parts[i].group].group.refuses() {
			return true
		}
	}
	return false
}

// admitting returns which limits of a group admit the request; the first limit is the lowest bit.
func (e *exact) admitting(g *exactGroup, q *request) (fits uint32) {
	if q.cost == 0 && g.group.Policy == "" {
		return 0
	}
	for i := range g.lanes {
		l := &g.lanes[i]
		l.charged = reach(l.charged, q.key)
		t := &l.charged[q.key]
		t.forgetFor(q.at, l.limit)
		if t.sum+max(q.cost, 1) <= l.limit.Quota {
			fits |= 1 << i
		}
	}
	return fits
}

// charge adds a request. If refusals count, only the newest units up to the quota are kept, because they are enough to
// fill it.
func (l *exactLane) charge(q *request) {
	t := &l.charged[q.key]
	t.add(q.at, q.cost)
	for t.sum-t.units >= l.limit.Quota {
		t.drop()
	}
}
