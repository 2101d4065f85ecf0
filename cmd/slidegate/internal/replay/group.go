package replay

import (
	"iter"

	"github.com/slidegate/slidegate"
	"github.com/slidegate/slidegate/cmd/slidegate/internal/replay/routing"
	"github.com/slidegate/slidegate/internal/adapter"
	"github.com/slidegate/slidegate/policy"
	"github.com/slidegate/slidegate/rule"
)

// group holds the keys that have the same limits, with their states. Keys are numbered separately in every group, so a
// group with few keys takes little memory.
type group struct {
	routing.Group
	index    int // its index among the groups
	lanes    []lane
	measures []*measure // one per lane, or none if only the counts are needed
	keys     []keyRun

	requests int64
	refused  int64 // requests that this group refused, not another policy of the same request
}

// onlyGroup returns a single group with limits for every key.
func onlyGroup(limits []slidegate.Limit) []routing.Group { return []routing.Group{{Limits: limits}} }

func newGroup(given routing.Group, measured bool) (group, error) {
	g := group{Group: given}
	for _, limit := range given.Limits {
		bound, err := adapter.Bind(given.Policy, limit)
		if err != nil {
			return g, err
		}
		g.lanes = append(g.lanes, newLane(*bound.Rule()))
	}
	for i := range g.lanes {
		if measured {
			g.measures = append(g.measures, &measure{census: newCensus(g.lanes[i].horizon())})
		}
	}
	return g, nil
}

// decides reports whether the limits of the group are charged by a request of this cost, and checks whether they are only
// checked, because it costs nothing.
func (g *group) decides(cost int64) bool { return g.By == policy.ByLimits && !g.Shadow && cost > 0 }

func (g *group) checks(cost int64) bool { return g.By == policy.ByLimits && !g.Shadow && cost == 0 }

// refuses reports whether the group's keys are refused without consulting any limit.
func (g *group) refuses() bool { return g.By == policy.ByBlockList && !g.Shadow }

// hasSeveralPolicies reports whether groups belong to more than one policy.
func hasSeveralPolicies(groups []routing.Group) bool {
	for _, g := range groups {
		if g.Policy != groups[0].Policy {
			return true
		}
	}
	return false
}

// wholeOnes returns the parts of each request.
func wholeOnes(requests []request) iter.Seq[[]request] {
	return func(yield func([]request) bool) {
		for from := 0; from < len(requests); {
			to := from + 1
			for requests[to-1].more {
				to++
			}
			if !yield(requests[from:to]) {
				return
			}
			from = to
		}
	}
}

// wholeRequests returns n, or a little more if the first n elements would end within a request.
func wholeRequests(requests []request, n int) int {
	n = min(n, len(requests))
	for n > 0 && n < len(requests) && requests[n-1].more {
		n++
	}
	return n
}

// decideParts decides a request under several policies, or one that a list decides. Either all limits that decide admit
// it and are charged, or none is charged; shadow policies decide independently.
func (r *run) decideParts(parts []request) (allowed bool) {
	r.answers, r.items = r.answers[:0], r.items[:0]
	for i := range parts {
		if r.groups[parts[i].group].refuses() {
			return r.refuseListed(parts)
		}
	}
	if !r.checkFree(parts) {
		return false
	}
	for i := range parts {
		q := &parts[i]
		if g := &r.groups[q.group]; g.decides(q.cost) {
			g.begin(q)
			r.borrowStates(g, q)
		}
	}
	allowed = r.decideItems(rule.Take, parts[0].at)
	live := len(r.answers)
	from := 0
	for i := range parts {
		q := &parts[i]
		g := &r.groups[q.group]
		switch {
		case g.decides(q.cost):
			own := r.answers[from : from+len(g.lanes)]
			from += len(g.lanes)
			g.end(q, own, allowed, r.exact)
			r.countKey(g, q, own, allowed)
		case g.By == policy.ByLimits && g.Shadow && q.cost > 0:
			r.decideShadow(g, q)
			r.answers = r.answers[:live]
		default:
			r.countKey(g, q, nil, allowed)
		}
	}
	r.count(&parts[0], allowed)
	if live == 0 {
		r.answers = append(r.answers, rule.Answer{Allowed: true})
	}
	return allowed
}

// checkFree reports whether the policies under which a request costs nothing would admit one unit. If not, as in the service,
// it is refused before anything is charged.
func (r *run) checkFree(parts []request) (allowed bool) {
	for i := range parts {
		one := parts[i]
		if g := &r.groups[one.group]; g.checks(one.cost) {
			g.begin(&one)
			one.cost = 1
			r.borrowStates(g, &one)
		}
	}
	allowed = r.decideItems(rule.Peek, parts[0].at)
	from := 0
	for i := range parts {
		q := &parts[i]
		g := &r.groups[q.group]
		switch {
		case g.checks(q.cost):
			own := r.answers[from : from+len(g.lanes)]
			from += len(g.lanes)
			g.end(q, own, allowed, r.exact)
			if !allowed {
				r.countKey(g, q, own, false)
			}
		case !allowed:
			r.countKey(g, q, nil, false)
		}
	}
	if allowed {
		r.answers, r.items = r.answers[:0], r.items[:0]
	} else {
		r.count(&parts[0], false)
	}
	return allowed
}

// refuseListed counts a request that a block list refuses: no limit is consulted, and nothing is charged.
func (r *run) refuseListed(parts []request) (allowed bool) {
	r.answers = append(r.answers, rule.Answer{RetryAfter: rule.Never})
	for i := range parts {
		q := &parts[i]
		if g := &r.groups[q.group]; g.refuses() {
			r.countKey(g, q, r.answers, false)
		} else {
			r.countKey(g, q, nil, false)
		}
	}
	r.count(&parts[0], false)
	return false
}

// decideShadow lets a shadow policy decide independently.
func (r *run) decideShadow(g *group, q *request) {
	r.items = r.items[:0]
	live := len(r.answers)
	g.begin(q)
	r.borrowStates(g, q)
	r.answers = append(r.answers, make([]rule.Answer, len(g.lanes))...)
	own := r.answers[live:]
	rule.Decide(rule.Take, r.items, q.at, own)
	g.restore(q)
	g.end(q, own, admitted(own), r.exact)
	r.countKey(g, q, own, false)
}

// borrowStates adds the states of q's key under the limits of a group to the items that are decided together.
func (r *run) borrowStates(g *group, q *request) {
	for i := range g.lanes {
		l := &g.lanes[i]
		l.reach(q.key)
		r.items = append(r.items, rule.Item{Limit: &l.limit, State: l.borrow(q.key), Cost: q.cost})
	}
	r.borrowed = append(r.borrowed, borrowedKey{g, q.key})
}

// borrowedKey is a key whose states a decision has borrowed.
type borrowedKey struct {
	group *group
	key   uint32
}

// decideItems decides all items together, all or nothing.
func (r *run) decideItems(op rule.Op, at rule.Micros) (allowed bool) {
	for range r.items {
		r.answers = append(r.answers, rule.Answer{})
	}
	if len(r.items) > 0 {
		rule.Decide(op, r.items, at, r.answers)
	}
	for _, l := range r.borrowed {
		l.group.restoreKey(l.key)
	}
	r.borrowed = r.borrowed[:0]
	return admitted(r.answers)
}

func admitted(answers []rule.Answer) bool {
	for i := range answers {
		if !answers[i].Allowed {
			return false
		}
	}
	return true
}

func (g *group) restore(q *request) { g.restoreKey(q.key) }

func (g *group) restoreKey(key uint32) {
	for i := range g.lanes {
		g.lanes[i].restore(key)
	}
}

// begin must be called before a request is decided, and end after it.
func (g *group) begin(q *request) {
	for i, m := range g.measures {
		m.begin(&g.lanes[i], q)
	}
}

// end passes the decisions of the limits, and of all limits together, to the measures. If exact is set, the run is an
// exact log, and so is never wrong.
func (g *group) end(q *request, answers []rule.Answer, allowed, exact bool) {
	for i, m := range g.measures {
		admits := answers[i].Allowed
		fits := q.fits>>i&1 != 0
		if exact {
			fits = admits
		}
		m.end(&g.lanes[i], q, fits, admits, allowed)
	}
}
