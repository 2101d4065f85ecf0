package policy

import (
	"github.com/slidegate/slidegate"
	"github.com/slidegate/slidegate/store"
)

// addLive records the verdict of one of the policies that decide together, whose joint verdict is v: it has the part's own
// limits and answers.
func (r *Request) addLive(it *part, v *Verdict) {
	if !r.Record {
		return
	}
	own := *v
	own.Policy, own.Plan, own.Limits, own.note = it.policy.name, it.rules.plan, it.rules.limits, it.rules.note
	if live := &r.batch.requests[it.request]; live.Err == nil {
		to := it.from + len(it.rules.bound)
		own.Decision = slidegate.Combine(&store.Request{Charges: live.Charges[it.from:to], Answers: live.Answers[it.from:to]})
	}
	if own.Refused = own.refuses(); !own.Refused {
		own.Penalty = 0
	}
	r.addDecided(&own)
}

func (r *Request) addDecided(v *Verdict) {
	if r.Record {
		r.decided = append(r.decided, *v)
	}
}

// Decided returns the verdicts of the last Decide, if Record is set, without those of Trials: one for each policy that
// admitted the request, or one for each that denied it. It is empty if only one policy decided.
func (r *Request) Decided() []Verdict {
	if len(r.parts) < 2 {
		return nil
	}
	return r.decided
}
