package refusals

import (
	"strings"
	"time"

	"github.com/slidegate/slidegate/rule"
	"github.com/slidegate/slidegate/store"
)

// Bounds on a remembered request, so that MaxKeys bounds the memory.
const (
	maxCharges = 8
	maxBytes   = 1024 // of group and keys
)

// entry is a remembered refusal. It never changes. A request over several limits is remembered as a whole: the answer of
// one of its limits alone does not determine when to retry.
type entry struct {
	hash, turn uint64
	calledAt   time.Duration // when the store was called, by the local clock
	holdsFor   time.Duration // how long after that the refusal is certain
	group      string
	charges    []chargeAnswer
	one        [1]chargeAnswer // backs charges if there is only one
}

// chargeAnswer is the store's answer for a charge.
type chargeAnswer struct {
	limit  *store.Limit
	key    string
	cost   int64
	answer rule.Answer
}

// newEntry returns an entry that shares no memory with the caller, which may reuse the memory of its keys.
func newEntry(
	l *lookup, last time.Duration, group string, charges []store.Charge, answers []rule.Answer,
) *entry {
	e := &entry{hash: l.hash, turn: l.turn, calledAt: l.now, holdsFor: last, group: strings.Clone(group)}
	if e.charges = e.one[:]; len(charges) > 1 {
		e.charges = make([]chargeAnswer, len(charges))
	}
	for i := range charges {
		c := &charges[i]
		e.charges[i] = chargeAnswer{limit: c.Limit, key: strings.Clone(c.Key), cost: c.Cost, answer: answers[i]}
	}
	return e
}

// lasts returns how long a refusal holds, inclusive: until the first of the refusing limits would admit, even if the
// others still refuse, because then its own answer would change.
//
// The store's clock shows whole microseconds, so a retry that the store will admit at microsecond r may come as early
// as just after r-1 by a clock that is finer or ticks at other times.
func (s *Store) lasts(answers []rule.Answer) (last time.Duration, ok bool) {
	first := rule.Never
	for i := range answers {
		a := &answers[i]
		if a.Allowed {
			continue
		}
		if a.RetryAfter <= 0 || a.RetryAfter > longest {
			return 0, false
		}
		first = min(first, a.RetryAfter)
	}
	return min(time.Duration(first-1)*time.Microsecond, s.maxAge-1), first != rule.Never
}

// longest is the longest time to retry that is remembered: 30 years, more than any limit needs. Never is longer.
const longest = rule.Micros(30 * 366 * 86_400 * 1e6)

// left returns how much longer the refusal holds; a negative result means that it does not. A time from before the store
// was called, read by a goroutine that was then delayed, says nothing about the refusal.
func (e *entry) left(now time.Duration) time.Duration {
	since := now - e.calledAt
	if since < 0 {
		return -1
	}
	return e.holdsFor - since
}

// sameCharges reports whether a request has the same charges as the refused one, apart from costs: the same addresses, and
// limits that are equal in every field, because a key that changes plans keeps its address under another quota.
func (e *entry) sameCharges(group string, charges []store.Charge) bool {
	if len(charges) != len(e.charges) || group != e.group {
		return false
	}
	for i := range charges {
		c, t := &charges[i], &e.charges[i]
		if c.Key != t.key || c.Limit != t.limit && !sameLimit(c.Limit, t.limit) {
			return false
		}
	}
	return true
}

func sameLimit(a, b *store.Limit) bool {
	return a.Prefix() == b.Prefix() && *a.Rule() == *b.Rule()
}

// refuses reports whether the same charges at these costs get the same answers: limits that refused refuse the same cost
// or more, and limits that admitted still admit what then remained.
func (e *entry) refuses(charges []store.Charge) bool {
	for i := range charges {
		t, cost := &e.charges[i], charges[i].Cost
		if t.answer.Allowed && cost > t.answer.Remaining || !t.answer.Allowed && cost < t.cost {
			return false
		}
	}
	return true
}

// fill sets a to the current answer for charge i: the store's answer adjusted for the time since the store was called.
// That time is rounded up, so that the time to retry is never later than the true one.
func (e *entry) fill(a *rule.Answer, i int, cost int64, now time.Duration) {
	t := &e.charges[i]
	passed := rule.Micros((now - e.calledAt + time.Microsecond - 1) / time.Microsecond)
	a.Allowed, a.Flags, a.Granted = t.answer.Allowed, rule.Cached, 0
	a.Remaining, a.At = t.answer.Remaining, t.answer.At+passed
	a.RetryAfter, a.NextAfter = 0, max(0, t.answer.NextAfter-passed)
	if !a.Allowed {
		a.RetryAfter = t.answer.RetryAfter - passed
	}
	a.ResetAfter = max(t.answer.ResetAfter-passed, a.RetryAfter)
	if cost > t.limit.Rule().Capacity() {
		a.RetryAfter = rule.Never
	}
}
