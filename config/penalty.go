package config

import (
	"slices"
	"time"

	"github.com/slidegate/slidegate"
	"github.com/slidegate/slidegate/config/wording"
	"github.com/slidegate/slidegate/config/yamlfile"
)

// penalty reads for how long an excess keeps a key out.
func (r *reader) penalty(e yamlfile.Field) time.Duration {
	before := len(r.Problems)
	made := r.window(e)
	if made.Calendar != 0 && len(r.Problems) == before {
		text, _ := r.Text(e)
		r.Problems.Addf(e.ValueAt(), "penalty: %s is a period of the calendar; write a length of time such as 10m or 24h", wording.Quote(text))
	}
	return made.Window
}

// checkPenalty reports limits that a policy with a penalty at the given place cannot have.
func (r *reader) checkPenalty(p *Policy, at yamlfile.Position) {
	all := slices.Clone(p.Limits)
	for _, override := range p.Overrides {
		all = append(all, override.Limits...)
	}
	for _, plan := range p.Plans {
		all = append(all, plan.Limits...)
	}
	for _, plan := range p.Plans {
		all = append(all, plan.Limits...)
	}
	if slices.ContainsFunc(all, func(l slidegate.Limit) bool { return l.Lease }) {
		r.Problems.Addf(at, "penalty: the policy has leased limits, and every request asks the store whether its key is kept out; leave out lease or penalty")
	}
	if slices.ContainsFunc(all, func(l slidegate.Limit) bool { return l.Name == "penalty" }) {
		r.Problems.Addf(at, `penalty: the policy has a limit that is called "penalty", which is the name of the penalty's own; give the limit another name`)
	}
}
