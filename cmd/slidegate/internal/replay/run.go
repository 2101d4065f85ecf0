package replay

import (
	"slices"

	"github.com/slidegate/slidegate/cmd/slidegate/internal/replay/routing"
	"github.com/slidegate/slidegate/policy"
	"github.com/slidegate/slidegate/rule"
)

// run applies one set of limits to the traffic.
type run struct {
	name   string
	groups []group
	exact  bool // all its limits count exactly, so it is never wrong

	admitted, refused           int64
	unitsAdmitted, unitsRefused int64
	touched                     int64
	lockout                     lockout
	latest                      rule.Micros // the latest time of all requests

	blamed bool   // the last request was refused
	blame  keyRef // the first key that caused the refusal

	answers  []rule.Answer
	items    []rule.Item
	borrowed []borrowedKey
}

// keyRun holds the counts of one key.
type keyRun struct {
	requests    int64
	refused     int64
	lockedSince rule.Micros // the time of the first of consecutive refusals
	opens       rule.Micros // when the last of them would be admitted; 0 if not locked out
	lockout     rule.Micros // the longest lock-out so far
}

// lockout is the longest lock-out of all keys.
type lockout struct {
	group  *group
	key    uint32
	from   rule.Micros
	length rule.Micros
	ended  bool
}

// newRun returns a run over the limits of groups. If measured is set, it measures their accuracy, and requests must
// pass through an exact log first.
func newRun(name string, groups []routing.Group, measured bool) (*run, error) {
	r := &run{name: name, exact: true, groups: make([]group, len(groups))}
	for i, given := range groups {
		var err error
		if r.groups[i], err = newGroup(given, measured); err != nil {
			return nil, err
		}
		r.groups[i].index = i
		for j := range r.groups[i].lanes {
			r.exact = r.exact && isExact(&r.groups[i].lanes[j].limit)
		}
	}
	return r, nil
}

// isExact reports whether a limit counts exactly the units in its window. Without a named algorithm, refusals that count can make a log
// so large that it becomes parts.
func isExact(l *rule.Limit) bool {
	remainsLog := l.Algorithm == rule.DefaultAlgorithm && !l.StartsInParts(0) && !l.CountRefused
	return l.Algorithm == rule.SlidingLog || remainsLog || l.Calendar != 0
}

// each decides requests in order and calls decided after each.
func (r *run) each(requests []request, decided func(q *request, allowed bool)) {
	for parts := range wholeOnes(requests) {
		decided(&parts[0], r.decide(parts))
	}
}

// decide admits or refuses one request, and leaves the answers of the limits in r.answers.
func (r *run) decide(parts []request) (allowed bool) {
	r.blamed = false
	q := &parts[0]
	g := &r.groups[q.group]
	if len(parts) > 1 || len(g.lanes) == 0 || g.Shadow {
		return r.decideParts(parts)
	}
	if q.cost == 0 && g.Policy != "" {
		return r.decideParts(parts)
	}
	g.begin(q)
	if len(g.lanes) == 1 {
		r.answers = append(r.answers[:0], g.lanes[0].take(q.key, q.at, q.cost))
		allowed = r.answers[0].Allowed
	} else {
		r.answers, r.items = r.answers[:0], r.items[:0]
		r.borrowStates(g, q)
		allowed = r.decideItems(rule.Take, q.at)
	}
	g.end(q, r.answers, allowed, r.exact)
	r.count(q, allowed)
	r.countKey(g, q, r.answers, allowed)
	return allowed
}

// count counts a request.
func (r *run) count(q *request, allowed bool) {
	r.latest = max(r.latest, q.at)
	if allowed {
		r.admitted++
		r.unitsAdmitted += q.cost
		return
	}
	r.refused++
	r.unitsRefused += q.cost
}

// countKey counts a request for its key in a group. The answers are those of the group's limits; none means that the
// group did not take part in the decision.
func (r *run) countKey(g *group, q *request, answers []rule.Answer, allowed bool) {
	g.keys = reach(g.keys, q.key)
	k := &g.keys[q.key]
	k.requests++
	g.requests++
	if allowed || admitted(answers) {
		if allowed && k.opens != 0 && q.cost > 0 {
			r.unlock(g, q.key, q.at, true)
		}
		return
	}
	g.refused++
	k.refused++
	if g.Shadow {
		return
	}
	if !r.blamed {
		r.blamed, r.blame = true, keyRef{g.index, q.key}
	}
	if k.refused == 1 {
		r.touched++
	}
	if k.opens != 0 && q.at > k.opens {
		r.unlock(g, q.key, q.at, true) // it would have been admitted in between, but sent nothing
	}
	if k.opens == 0 {
		k.lockedSince = q.at
	}
	k.opens = max(k.opens, q.at+longestWait(answers))
}

// longestWait returns how long a request with these answers has to wait, or 0 if it would never be admitted.
func longestWait(answers []rule.Answer) (longest rule.Micros) {
	for i := range answers {
		if a := &answers[i]; !a.Allowed && a.RetryAfter != rule.Never {
			longest = max(longest, a.RetryAfter)
		}
	}
	return longest
}

// unlock ends the lock-out of a key at the time it is, or would have been, admitted.
func (r *run) unlock(g *group, key uint32, now rule.Micros, ended bool) {
	k := &g.keys[key]
	length := min(now, k.opens) - k.lockedSince
	k.lockout = max(k.lockout, length)
	if l := &r.lockout; length > l.length {
		*l = lockout{group: g, key: key, from: k.lockedSince, length: length, ended: ended}
	}
	k.opens = 0
}

// endLockouts ends the lock-outs that outlast the traffic.
func (r *run) endLockouts() {
	for i := range r.groups {
		g := &r.groups[i]
		for key := range g.keys {
			if opens := g.keys[key].opens; opens != 0 {
				r.unlock(g, uint32(key), opens, opens <= r.latest)
			}
		}
	}
}

// outcome returns the outcome of the run, with the most refused keys. The argument names has the names of keys by
// group.
func (r *run) outcome(names []*keys, top int) Outcome {
	r.endLockouts()
	o := Outcome{
		Name: r.name, Admitted: r.admitted, Refused: r.refused,
		UnitsAdmitted: r.unitsAdmitted, UnitsRefused: r.unitsRefused, KeysTouched: r.touched,
		TopRefused: []KeyOutcome{},
	}
	for i := range r.groups {
		o.Limits = append(o.Limits, r.groups[i].outcomes(names[i])...)
	}
	if l := r.lockout; l.length > 0 {
		o.Lockout = Lockout{Policy: l.group.Policy, Key: names[l.group.index].name(l.key), From: l.from, Length: l.length, Ended: l.ended}
	}
	for _, w := range r.worst(top) {
		g := &r.groups[w.group]
		k := &g.keys[w.key]
		o.TopRefused = append(o.TopRefused, KeyOutcome{
			Policy: g.Policy, Key: names[w.group].name(w.key), Requests: k.requests, Refused: k.refused, Lockout: k.lockout,
		})
	}
	return o
}

// outcomes returns the outcomes of the limits of a group.
func (g *group) outcomes(names *keys) (all []LimitOutcome) {
	for i, limit := range g.Limits {
		found := LimitOutcome{
			Policy: g.Policy, Override: g.Override, Plan: g.Plan, Shadow: g.Shadow,
			Limit: limit.String(), Quota: limit.Quota, Window: rule.Micros(limit.Window.Microseconds()),
		}
		if limit.Calendar != 0 {
			found.Calendar, found.Zone = limit.Calendar.String(), g.lanes[i].limit.Zone
		}
		if g.measures != nil {
			m := g.measures[i]
			found.Refused, found.WrongAdmitted, found.WrongRefused = m.refused, m.wrongAdmitted, m.wrongRefused
			if m.highest > 0 {
				found.Highest = Highest{Units: m.highest, Key: names.name(m.highestKey), At: m.highestAt}
			}
			found.LiveKeys, found.StateBytes = m.census.peak.keys, m.census.peak.bytes
		}
		all = append(all, found)
	}
	return all
}

// policies returns the outcome of each policy, if the groups belong to policies.
func (r *run) policies() (all []PolicyOutcome) {
	for i := range r.groups {
		g := &r.groups[i]
		if g.Policy == "" {
			continue
		}
		if len(all) == 0 || all[len(all)-1].Name != g.Policy {
			all = append(all, PolicyOutcome{Name: g.Policy, Shadow: g.Shadow})
		}
		p := &all[len(all)-1]
		p.Requests += g.requests
		p.Refused += g.refused
		switch {
		case g.By == policy.ByAllowList:
			p.AllowList = g.requests
		case g.By == policy.ByBlockList:
			p.BlockList = g.requests
		case g.By == policy.ByUnlimited:
			p.Unlimited = g.requests
		case g.Override != "" || g.Plan != "":
			p.Overridden += g.requests
		}
	}
	return all
}

// keyRef identifies a key by its group and its number.
type keyRef struct {
	group int
	key   uint32
}

// worst returns up to n refused keys, the most refused first; among equals, the one that came first.
func (r *run) worst(n int) (list []keyRef) {
	refused := func(p keyRef) int64 { return r.groups[p.group].keys[p.key].refused }
	for i := range r.groups {
		if r.groups[i].Shadow {
			continue
		}
		for key := range r.groups[i].keys {
			own := keyRef{i, uint32(key)}
			if refused(own) == 0 || n == 0 || len(list) == n && refused(own) <= refused(list[n-1]) {
				continue
			}
			at, _ := slices.BinarySearchFunc(list, refused(own), func(p keyRef, count int64) int {
				if refused(p) >= count {
					return -1
				}
				return 1
			})
			list = slices.Insert(list, at, own)
			list = list[:min(n, len(list))]
		}
	}
	return list
}
