package slidegate

import (
	"log/slog"
	"math"
	"slices"
	"time"

	"github.com/slidegate/slidegate/internal/answering"
	"github.com/slidegate/slidegate/rule"
	"github.com/slidegate/slidegate/store"
)

// Never is the RetryAfter of a cost that the limit never admits, because it exceeds the quota.
const Never = time.Duration(math.MaxInt64)

// Decision is the result of a request: whether it was admitted, what remains, and when to retry. With several limits,
// the fields come from the limit that decided: in a refusal, the one with the latest RetryAfter; in an admission, the
// one with the least Remaining, and among several with none left the one with the latest NextAfter.
type Decision struct {
	Allowed bool
	// Flags report whether the store decided in the usual way, or a cache, a fallback or an inherited count was involved.
	// They are those of the deciding limit, except that ClockMoved reports whether the state of any limit was ahead of the
	// clock: where another limit refused the request, that state stays ahead, and RetryAfter may be too short.
	Flags rule.Flags
	// Index is the index of the deciding limit among the request's limits.
	Index int32
	// LimitName is the name of the deciding limit, or its text if it has no name.
	LimitName string
	// Quota is the deciding limit's quota, and Remaining is what is left of it right after this decision. For a token
	// bucket whose burst exceeds its quota, Remaining can exceed Quota.
	Quota     int64
	Remaining int64
	// Granted is how many units were charged: the cost if allowed, possibly less from AllowUpTo, and 0 if refused.
	Granted int64
	// RetryAfter is how long to wait until the same cost is admitted if nothing else arrives: exactly then, and not a
	// microsecond earlier. It is 0 if allowed, and Never if the cost exceeds the quota. For an in-flight limit it is the
	// time until the first slot expires if none is renewed; a slot may be released before that.
	RetryAfter time.Duration
	// ResetAfter is how long it takes until the whole quota is free again if nothing else arrives.
	ResetAfter time.Duration
	// NextAfter is how long it takes until a unit is free again if nothing else arrives. It is set by an admission that
	// left no unit, and 0 otherwise.
	NextAfter time.Duration
	// At is the store's time at which the decision was made.
	At rule.Micros
	// Answers holds the answer of each limit, in the order of the limits, if there are several; otherwise it is nil.
	Answers []rule.Answer
}

// LogValue makes a Decision readable in logs. It contains no key, and leaves out zero and usual values.
func (d Decision) LogValue() slog.Value {
	attrs := []slog.Attr{
		slog.Bool("allowed", d.Allowed), slog.String("limit", d.LimitName),
		slog.Int64("quota", d.Quota), slog.Int64("remaining", d.Remaining),
	}
	if !d.Allowed && d.RetryAfter == Never {
		attrs = append(attrs, slog.String("retry_after", "never"))
	} else if !d.Allowed {
		attrs = append(attrs, slog.Duration("retry_after", d.RetryAfter))
	}
	if d.Flags != 0 {
		attrs = append(attrs, slog.String("flags", d.Flags.String()))
	}
	return slog.GroupValue(attrs...)
}

// fill sets d from one limit's answer; after is as in store.SingleTaker. It works in place because a Decision is large
// enough for a copy to matter.
func (d *Decision) fill(limit *store.Limit, allowed bool, flags rule.Flags, granted, remaining int64, after, resetAfter, at rule.Micros) {
	d.Allowed, d.Flags = allowed, flags
	d.LimitName, d.Quota, d.Remaining = limit.Label(), limit.Rule().Quota, remaining
	if allowed {
		d.Granted, d.NextAfter = granted, after.Duration()
	} else {
		d.RetryAfter = after.Duration()
	}
	d.ResetAfter = resetAfter.Duration()
	d.At, _ = answering.Unmark(at)
}

// combine fills d, except Answers, from the answer that decides.
func (d *Decision) combine(charges []store.Charge, answers []rule.Answer) {
	index, allowed := answering.Deciding(answers)
	a, flags := &answers[index], answers[index].Flags
	for i := range answers {
		flags |= answers[i].Flags & rule.ClockMoved // a refusal leaves the other limits' states ahead, and they may refuse later
	}
	d.fill(charges[index].Limit, allowed, flags, a.Granted, a.Remaining, answering.After(a), a.ResetAfter, a.At)
	d.Index = int32(index)
}

// combined returns the decision that the answers of one request make; see adapter.Combine.
func combined(charges []store.Charge, answers []rule.Answer) (d Decision) {
	d.combine(charges, answers)
	if len(answers) > 1 {
		d.Answers = slices.Clone(answers)
	}
	return d
}
