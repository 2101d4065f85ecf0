package replay

import (
	"slices"

	"github.com/slidegate/slidegate/cmd/slidegate/internal/replay/routing"
)

// against runs other policies on the same traffic, and records how their decisions differ from those of the replayed
// policies.
type against struct {
	run   *run
	first int // the index of its first group among all groups

	requests    []request     // the parts of the batch under the replayed policies
	others      []request     // the parts of the batch under the other policies
	now, before []runDecision // the decisions of the two runs on the batch

	refused, admitted change
}

// runDecision is the decision of a run on a request.
type runDecision struct {
	refused bool
	blame   keyRef
}

// change counts the requests that one of the two runs refuses and the other does not.
type change struct {
	requests int64
	keys     [][]int64 // how many of them, by group and key
	refusals *refusals
}

func newAgainst(first int, groups []routing.Group, n *notes) (*against, error) {
	r, err := newRun("", groups, false)
	return &against{run: r, first: first, refused: change{refusals: newRefusals(n)}, admitted: change{refusals: newRefusals(n)}}, err
}

// split separates the parts of a batch by run, and returns the parts of the replayed policies.
func (a *against) split(batch []request) []request {
	a.requests, a.others = a.requests[:0], a.others[:0]
	a.now, a.before = a.now[:0], a.before[:0]
	for len(batch) > 0 {
		parts := batch[:partCount(batch)]
		batch = batch[len(parts):]
		own := a.own(parts)
		a.requests = append(a.requests, parts[:own]...)
		if own > 0 {
			a.requests[len(a.requests)-1].more = false
		}
		for _, part := range parts[own:] {
			part.group -= uint32(a.first)
			a.others = append(a.others, part)
		}
	}
	return a.requests
}

// own returns how many parts of a request belong to the replayed policies. They come first.
func (a *against) own(parts []request) int {
	n := slices.IndexFunc(parts, func(q request) bool { return int(q.group) >= a.first })
	if n < 0 {
		return len(parts)
	}
	return n
}

// each decides the requests of a batch by the other policies, and compares the decisions with those of the replayed
// policies. A file with no policy for a request admits it.
func (a *against) each(batch []request) {
	a.run.each(a.others, func(_ *request, allowed bool) { a.before = append(a.before, runDecision{!allowed, a.run.blame}) })
	for now, before := 0, 0; len(batch) > 0; {
		parts := batch[:partCount(batch)]
		batch = batch[len(parts):]
		var here, there runDecision
		own := a.own(parts)
		if own > 0 {
			here = a.now[now]
			now++
		}
		if own < len(parts) {
			there = a.before[before]
			before++
		}
		switch {
		case here.refused && !there.refused:
			a.refused.add(parts[0].note, here.blame)
		case there.refused && !here.refused:
			a.admitted.add(parts[0].note, there.blame)
		}
	}
}

func (c *change) add(at note, key keyRef) {
	c.requests++
	c.refusals.add(at, key)
	for len(c.keys) <= key.group {
		c.keys = append(c.keys, nil)
	}
	c.keys[key.group] = reach(c.keys[key.group], key.key)
	c.keys[key.group][key.key]++
}

func (a *against) findings(names []*keys, groups []routing.Group, opts *Options) *Comparison {
	others := names[a.first:]
	return &Comparison{
		Outcome: a.run.outcome(others, opts.Top), Policies: a.run.policies(),
		NewlyRefused:  a.refused.findings(names, groups, opts.Top),
		NewlyAdmitted: a.admitted.findings(others, opts.Against, opts.Top),
	}
}

func (c *change) findings(names []*keys, groups []routing.Group, top int) (found Change) {
	found.Requests, found.Profile = c.requests, c.refusals.findings()
	var all []KeyChange
	for group, counts := range c.keys {
		for key, n := range counts {
			if n > 0 {
				all = append(all, KeyChange{at: keyRef{group, uint32(key)}, Requests: n})
			}
		}
	}
	found.Keys = int64(len(all))
	slices.SortStableFunc(all, func(x, y KeyChange) int { return int(max(-1, min(1, y.Requests-x.Requests))) })
	for _, one := range all[:min(top, len(all))] {
		one.Policy, one.Key = groups[one.at.group].Policy, names[one.at.group].name(one.at.key)
		one.Profile = c.refusals.key(one.at)
		found.Top = append(found.Top, one)
	}
	return found
}
