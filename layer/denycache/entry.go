package denycache

import (
	"strings"
	"time"

	"github.com/slidegate/slidegate/rule"
	"github.com/slidegate/slidegate/store"
)

// What a remembered request has at most, so that MaxKeys bounds the memory.
const (
	maxCharges = 8
	maxBytes   = 1024 // of group and keys
)

// entry is the refusal of a request. It never changes. A request over several limits is remembered as a whole: what is
// known about one of its limits alone would not tell when to come back.
type entry struct {
	hash, turn uint64
	asked      time.Duration // when the store was asked, by the local clock
	last       time.Duration // how long after that the refusal is true to the end
	group      string
	charges    []told
	one        [1]told // what charges is for a single one
}

// told is what the store said to a charge.
type told struct {
	limit  *store.Limit
	key    string
	cost   int64
	answer rule.Answer
}

// newEntry makes an entry that has nothing of the caller's: keys may lie in memory that is about to be used again.
func newEntry(
	l *look, last time.Duration, group string, charges []store.Charge, answers []rule.Answer,
) *entry {
	e := &entry{hash: l.hash, turn: l.turn, asked: l.now, last: last, group: strings.Clone(group)}
	if e.charges = e.one[:]; len(charges) > 1 {
		e.charges = make([]told, len(charges))
	}
	for i := range charges {
		c := &charges[i]
		e.charges[i] = told{limit: c.Limit, key: strings.Clone(c.Key), cost: c.Cost, answer: answers[i]}
	}
	return e
}

// lasts returns how long a refusal is true, up to and including that moment: until the first of the limits that refuse
// would admit, even if the others still refuse, for then its own answer would be another.
//
// Clocks show whole microseconds to the store, so a retry that it will admit at microsecond r may come as early as
// r-1 and a bit after the question, by a clock that is finer or ticks at other moments.
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

// longest is the longest time to retry that is remembered: 30 years, which no limit needs. Never is longer.
const longest = rule.Micros(30 * 366 * 86_400 * 1e6)

// left returns how long from now on the refusal is still true; it is negative when it is not. A moment from before the
// store was asked, by a goroutine that read its clock and was then held up, says nothing about it.
func (e *entry) left(now time.Duration) time.Duration {
	since := now - e.asked
	if since < 0 {
		return -1
	}
	return e.last - since
}

// same reports whether a request has the same charges as the one that was refused, costs aside: the same addresses, and
// the same limits in all they have, for a key that changes plans has the same address under another quota.
func (e *entry) same(group string, charges []store.Charge) bool {
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

// refuses reports whether the same charges at these costs get the same answers: who was refused is refused the same cost or
// more, who was admitted is still admitted what then remained.
func (e *entry) refuses(charges []store.Charge) bool {
	for i := range charges {
		t, cost := &e.charges[i], charges[i].Cost
		if t.answer.Allowed && cost > t.answer.Remaining || !t.answer.Allowed && cost < t.cost {
			return false
		}
	}
	return true
}

// fill makes a what charge i is told now: what the store said, moved along by the time that has passed since it was
// asked. That is rounded up, so that the time to retry is never later than the truth.
func (e *entry) fill(a *rule.Answer, i int, cost int64, now time.Duration) {
	t := &e.charges[i]
	passed := rule.Micros((now - e.asked + time.Microsecond - 1) / time.Microsecond)
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
