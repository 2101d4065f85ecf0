package replay

import (
	"cmp"
	"maps"
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
	keys     map[keyRef]int64 // how many of them
	refusals refusals
}

func newAgainst(first int, groups []routing.Group) (*against, error) {
	r, err := newRun("", groups, false)
	return &against{run: r, first: first, refused: change{keys: map[keyRef]int64{}}, admitted: change{keys: map[keyRef]int64{}}}, err
}

// split separates the parts of a batch by run, and returns the parts of the replayed policies.
func (a *against) split(batch []request) []request {
	a.requests, a.others = a.requests[:0], a.others[:0]
	a.now, a.before = a.now[:0], a.before[:0]
	for parts := range wholeOnes(batch) {
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
	now, before := 0, 0
	for parts := range wholeOnes(batch) {
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
	c.keys[key]++
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
	found.Requests, found.Keys, found.Profile = c.requests, int64(len(c.keys)), c.refusals.all.profile(topValues)
	all := slices.SortedFunc(maps.Keys(c.keys), func(x, y keyRef) int {
		return cmp.Or(cmp.Compare(c.keys[y], c.keys[x]), cmp.Compare(x.group, y.group), cmp.Compare(x.key, y.key))
	})
	for _, at := range all[:min(top, len(all))] {
		found.Top = append(found.Top, KeyChange{
			Policy: groups[at.group].Policy, Key: names[at.group].name(at.key), Requests: c.keys[at], Profile: c.refusals.key(at),
		})
	}
	return found
}
