package storetest

import (
	"fmt"
	"testing"
	"time"

	"github.com/slidegate/slidegate"
	"github.com/slidegate/slidegate/rule"
	"github.com/slidegate/slidegate/store"
)

// checkReadOnly: peeks write nothing, refusals write nothing unless they count, and giving nothing back writes nothing. What
// a store has written shows when the clock steps back: a state that was moved to a later time is then decided at that time.
func checkReadOnly(t testing.TB, s *suite) {
	p := s.pair(t)
	full := p.bind(slidegate.Limit{Name: "read-only-full", Quota: 1, Window: 10_000 * time.Hour, Algorithm: slidegate.FixedWindow})
	for i, limit := range append(catalogue(), smallLimits()...) {
		limit.Name = fmt.Sprintf("read-only-%d", i)
		bound := p.bind(limit)
		if bound == nil {
			continue
		}
		p.forgetSubjects()
		p.title = limit.String()
		p.moveTo(epoch)
		checkFreshUnwritten(p, bound)
		checkUsedUnwritten(p, bound)
		if full != nil && p.store.Traits().MaxCharges > 1 {
			checkSparedUnwritten(p, bound, full)
		}
	}
}

// take sends a single charge in each available way. It is for requests that change nothing.
func (p *pair) take(limit *store.Limit, key string, cost int64) {
	p.t.Helper()
	p.single(rule.Take, limit, key, cost)
	if taker, ok := p.store.(store.SingleTaker); ok {
		p.bothWith(applyOne(taker), rule.Take, "", store.Charge{Limit: limit, Key: key, Cost: cost})
	}
}

// checkFreshUnwritten: a key that is only peeked at, or refused, does not begin a window.
func checkFreshUnwritten(p *pair, limit *store.Limit) {
	p.t.Helper()
	l := limit.Rule()
	p.single(rule.Peek, limit, "fresh", 1)
	p.take(limit, "fresh", 0)
	p.single(rule.TakeUpTo, limit, "fresh", 0)
	if l.Capacity() < rule.MaxQuota {
		p.take(limit, "fresh", l.Capacity()+1)
		p.single(rule.Peek, limit, "fresh", l.Capacity()+1)
	}
	p.giveBack(limit, "fresh", 1, rule.Oldest) // nothing is there
	p.giveBack(limit, "fresh", 0, p.clock.Now())
	p.moveBy(-1)
	p.single(rule.Peek, limit, "fresh", 1)
	p.moveBy(partOf(l)/3 + 1)
	p.single(rule.Take, limit, "fresh", 1)
}

// checkUsedUnwritten fills a key in two steps and requests too much at later times, each time followed by a peek at an
// earlier one.
func checkUsedUnwritten(p *pair, limit *store.Limit) {
	p.t.Helper()
	l := limit.Rule()
	half := max(1, l.Capacity()/2)
	p.single(rule.Take, limit, "used", half)
	p.moveBy(partOf(l) / 2)
	p.single(rule.Take, limit, "used", half)
	filled := p.clock.Now()
	p.single(rule.TakeUpTo, limit, "used", l.Capacity())
	for _, later := range []rule.Micros{1, partOf(l), partOf(l) + partOf(l)/2, l.Window - partOf(l)/2, l.Window} {
		p.moveTo(filled + later)
		p.single(rule.Peek, limit, "used", 1)
		for _, cost := range []int64{l.Capacity(), min(l.Capacity()+1, rule.MaxQuota)} {
			// A cost that would be admitted is not requested, because an admission must be written.
			if a := p.single(rule.Peek, limit, "used", cost); !a.Allowed {
				if l.CountRefused && cost <= l.Capacity() {
					p.single(rule.Take, limit, "used", cost) // which must be written
				} else {
					p.take(limit, "used", cost)
				}
			}
		}
		if a := p.single(rule.Peek, limit, "used", 1); !a.Allowed {
			p.single(rule.TakeUpTo, limit, "used", l.Capacity())
		}
		p.giveBack(limit, "used", 0, rule.Oldest)
		p.giveBack(limit, "used", 1, filled-3*l.Window) // nothing is there any more
		p.moveTo(filled)
		p.single(rule.Peek, limit, "used", 1)
		p.moveTo(filled + later - 1)
		p.single(rule.Peek, limit, "used", l.Capacity())
	}
}

// checkSparedUnwritten: a limit that would admit what another limit of the same request refuses is left alone, whether it
// has begun to count or not.
func checkSparedUnwritten(p *pair, limit, full *store.Limit) {
	p.t.Helper()
	const group = "spared"
	send := func(op rule.Op, limit *store.Limit, key string) rule.Answer {
		p.t.Helper()
		return p.both(op, group, store.Charge{Limit: limit, Key: key, Cost: 1})[0]
	}
	refused := store.Charge{Limit: full, Key: "full", Cost: 1}
	send(rule.Reset, full, "full")
	send(rule.Take, full, "full")
	send(rule.Take, limit, "begun")
	began, part := p.clock.Now(), partOf(limit.Rule())
	for _, later := range []rule.Micros{1, part / 2, part, part + part/2, limit.Rule().Window} {
		p.moveTo(began + later)
		if a := send(rule.Peek, full, "full"); a.Allowed {
			break // its window has passed
		}
		for _, op := range []rule.Op{rule.Take, rule.TakeUpTo} {
			for _, key := range []string{"begun", "fresh"} {
				p.both(op, group, store.Charge{Limit: limit, Key: key, Cost: 1}, refused)
				p.both(op, group, refused, store.Charge{Limit: limit, Key: key, Cost: 1})
			}
		}
		p.moveTo(began)
		send(rule.Peek, limit, "begun")
		send(rule.Peek, limit, "fresh")
	}
	p.moveTo(began + part/3 + 1)
	send(rule.Take, limit, "begun")
	send(rule.Take, limit, "fresh") // its window begins now
}
