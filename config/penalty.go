package config

import (
	"time"

	"github.com/slidegate/slidegate"
	"github.com/slidegate/slidegate/internal/errtext"
	"github.com/slidegate/slidegate/internal/yamlfile"
)

// penalty reads how long a refusal keeps a key out.
func (r *reader) penalty(e yamlfile.Field) time.Duration {
	before := len(r.Problems)
	made := r.window(e)
	if made.Calendar != 0 && len(r.Problems) == before {
		text, _ := r.Text(e)
		r.Problems.Addf(e.ValueAt(), "penalty: %s is a calendar period; write a duration such as 10m or 24h", errtext.Quote(text))
	}
	return made.Window
}

// checkPenalty reports limits that a policy with a penalty cannot have; at is the penalty's position.
func (r *reader) checkPenalty(p *Policy, at yamlfile.Position) {
	if p.anyLimit(func(l slidegate.Limit) bool { return l.Lease }) {
		r.Problems.Addf(at, "penalty: the policy has leased limits, but with a penalty every request needs the store; leave out lease or penalty")
	}
	if p.anyLimit(func(l slidegate.Limit) bool { return l.Name == "penalty" }) {
		r.Problems.Addf(at, `penalty: the policy has a limit named "penalty", which is reserved for the penalty; give the limit another name`)
	}
}
