package slidegate

import (
	"slices"

	"github.com/slidegate/slidegate/rule"
	"github.com/slidegate/slidegate/store"
)

// Combine turns a store's answers to a request into a decision, as a Limiter does. A denial reports the limit with the
// latest RetryAfter, an admission the limit with the least Remaining; either is flagged ClockMoved if one of the limits is.
// If there are several limits, Answers holds the answer of each. Combine is for programs that send a Store their own batches
// of requests. The request must have been answered: its Err is nil, and Answers has one answer for each charge. Combine keeps
// no reference to the request, so its memory can be reused.
func Combine(r *store.Request) Decision {
	var d Decision
	d.combine(r.Charges, r.Answers)
	if len(r.Answers) > 1 {
		d.Answers = slices.Clone(r.Answers)
	}
	return d
}

// combine fills d, except Answers, from the answer that decides.
func (d *Decision) combine(charges []store.Charge, answers []Answer) {
	index, allowed := rule.DecidingIndex(answers)
	a, flags := &answers[index], answers[index].Flags
	for i := range answers {
		flags |= answers[i].Flags & rule.ClockMoved // a denial leaves the other limits' states ahead, and they may deny later
	}
	d.fill(charges[index].Limit, allowed, flags, a.Granted, a.Remaining, a.After(), a.ResetAfter, a.At)
	d.Index = int32(index)
}
