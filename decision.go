package slidegate

import (
	"log/slog"
	"math"
	"time"

	"github.com/slidegate/slidegate/rule"
	"github.com/slidegate/slidegate/store"
)

// Micros is a moment since the Unix epoch, or a length of time, in microseconds.
type Micros = rule.Micros

// Answer is what one limit says to one request; see rule.Answer.
type Answer = rule.Answer

// Flags report how a decision came about where a cache, a fallback or an inherited count had a part in it: ask them with
// methods such as Cached and Fallback.
type Flags = rule.Flags

// Never is the RetryAfter of a cost that the limit will never admit, because it exceeds the quota.
const Never = time.Duration(math.MaxInt64)

// Decision is the answer to a request: allowed or not, what remains, when to come back. With several limits, the fields
// come from the one that decided: when refused, the one with the latest RetryAfter; when admitted, the one with the least
// Remaining, and of several that have none left the one with the latest NextAfter.
type Decision struct {
	Allowed bool
	// Flags say whether the store decided in the plain way, or a cache, a fallback or an inherited count had a part in it.
	Flags Flags
	// Index is the place of the deciding limit among the request's limits.
	Index int32
	// LimitName is the name of the deciding limit, or its text if it has no name.
	LimitName string
	// Quota is the deciding limit's quota, Remaining what is left of it right after this decision. A token bucket whose
	// burst exceeds its quota can have more remaining than that.
	Quota     int64
	Remaining int64
	// Granted is how many units were charged: the cost when allowed, less than that from AllowUpTo, 0 when refused.
	Granted int64
	// RetryAfter is how long to wait until the same cost is admitted if nothing else arrives: exactly then, and not a
	// microsecond earlier. It is 0 when allowed and Never when the cost exceeds the quota. Of an in-flight limit it is when the
	// first slot runs out that nobody renews; one may be released before.
	RetryAfter time.Duration
	// ResetAfter is how long it takes until the whole quota is free again if nothing else arrives.
	ResetAfter time.Duration
	// NextAfter is how long it takes until a unit is free again if nothing else arrives, after an admission that left none;
	// else it is 0.
	NextAfter time.Duration
	// At is the time that decided, by the store's clock.
	At Micros
	// Answers holds what each limit said, in the order of the limits, when there are several; else it is nil.
	Answers []Answer
}

// Never reports that the cost can never be admitted.
func (d Decision) Never() bool { return d.RetryAfter == Never }

// Time returns At as a time.Time.
func (d Decision) Time() time.Time { return d.At.Time() }

// LogValue makes a Decision readable in logs; it holds no key. What is zero or usual is left out.
func (d Decision) LogValue() slog.Value {
	attrs := []slog.Attr{
		slog.Bool("allowed", d.Allowed), slog.String("limit", d.LimitName),
		slog.Int64("quota", d.Quota), slog.Int64("remaining", d.Remaining),
	}
	if !d.Allowed && d.Never() {
		attrs = append(attrs, slog.String("retry_after", "never"))
	} else if !d.Allowed {
		attrs = append(attrs, slog.Duration("retry_after", d.RetryAfter))
	}
	if d.Flags != 0 {
		attrs = append(attrs, slog.String("flags", d.Flags.String()))
	}
	return slog.GroupValue(attrs...)
}

// fill makes d of one limit's answer, in place; after is as store.SingleTaker has it. In place, because a Decision is
// too large to be copied without need.
func (d *Decision) fill(limit *store.Limit, allowed bool, flags Flags, granted, remaining int64, after, resetAfter, at Micros) {
	d.Allowed, d.Flags = allowed, flags
	d.LimitName, d.Quota, d.Remaining = limit.Label(), limit.Rule().Quota, remaining
	if allowed {
		d.Granted, d.NextAfter = granted, after.Duration()
	} else {
		d.RetryAfter = after.Duration()
	}
	d.ResetAfter, d.At = resetAfter.Duration(), max(at, -at)
}
