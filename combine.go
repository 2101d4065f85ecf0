package slidegate

import (
	"slices"

	"github.com/slidegate/slidegate/rule"
	"github.com/slidegate/slidegate/store"
)

// Combine makes a decision of what a store answered to a request, as a Limiter does: refused, it tells of the limit with
// the latest RetryAfter; admitted, of the one with the least Remaining; with several, what each said is in Answers. It is
// for those who hand a Store batches of requests of their own. The request must have been answered: its Err is nil, and
// Answers has one answer for each charge. Nothing of it is kept, so its memory can be used again.
func Combine(r *store.Request) Decision {
	var d Decision
	d.combine(r.Charges, r.Answers)
	if len(r.Answers) > 1 {
		d.Answers = slices.Clone(r.Answers)
	}
	return d
}

// combine fills d, but for Answers, by the answer that decides.
func (d *Decision) combine(charges []store.Charge, answers []Answer) {
	index, allowed := rule.Deciding(answers)
	a := &answers[index]
	d.fill(charges[index].Limit, allowed, a.Flags, a.Granted, a.Remaining, a.After(), a.ResetAfter, a.At)
	d.Index = int32(index)
}
