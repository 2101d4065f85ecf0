package storetest

import (
	"fmt"
	"testing"

	"github.com/slidegate/slidegate/rule"
	"github.com/slidegate/slidegate/store"
)

// checkReadOnly: peeks write nothing, refusals write nothing unless they count, and giving nothing back writes nothing.
// What a store has written shows when the clock steps back: a state that was moved on to a later moment is then decided
// at that moment.
func checkReadOnly(t testing.TB, s *suite) {
	p := s.pair(t)
	for i, limit := range append(catalogue(), small()...) {
		limit.Name = fmt.Sprintf("read-only-%d", i)
		bound := p.bind(limit)
		if bound == nil {
			continue
		}
		p.turnPage()
		p.title = limit.String()
		p.moveTo(epoch)
		checkFreshUnwritten(p, bound)
		checkUsedUnwritten(p, bound)
	}
}

// checkFreshUnwritten: what is only looked at, or refused, does not begin a window.
func checkFreshUnwritten(p *pair, limit *store.Limit) {
	p.t.Helper()
	l := limit.Rule()
	p.one(rule.Peek, limit, "fresh", 1)
	p.one(rule.Take, limit, "fresh", 0)
	p.one(rule.TakeUpTo, limit, "fresh", 0)
	if l.Capacity() < rule.MaxQuota {
		p.one(rule.Take, limit, "fresh", l.Capacity()+1)
		p.one(rule.Peek, limit, "fresh", l.Capacity()+1)
	}
	p.giveBack(limit, "fresh", 1, rule.Oldest) // nothing is there
	p.giveBack(limit, "fresh", 0, p.clock.Now())
	p.moveBy(-1)
	p.one(rule.Peek, limit, "fresh", 1)
	p.moveBy(partOf(l)/3 + 1)
	p.one(rule.Take, limit, "fresh", 1)
}

// checkUsedUnwritten fills a key in two steps and asks for too much at later moments, each time looking back from an
// earlier one.
func checkUsedUnwritten(p *pair, limit *store.Limit) {
	p.t.Helper()
	l := limit.Rule()
	half := max(1, l.Capacity()/2)
	p.one(rule.Take, limit, "used", half)
	p.moveBy(partOf(l) / 2)
	p.one(rule.Take, limit, "used", half)
	filled := p.clock.Now()
	p.one(rule.TakeUpTo, limit, "used", l.Capacity())
	for _, later := range []rule.Micros{1, partOf(l), partOf(l) + partOf(l)/2, l.Window - partOf(l)/2, l.Window} {
		p.moveTo(filled + later)
		p.one(rule.Peek, limit, "used", 1)
		for _, cost := range []int64{l.Capacity(), min(l.Capacity()+1, rule.MaxQuota)} {
			// What would be admitted is not asked for: an admission is to be written.
			if a := p.one(rule.Peek, limit, "used", cost); !a.Allowed {
				p.one(rule.Take, limit, "used", cost)
			}
		}
		if a := p.one(rule.Peek, limit, "used", 1); !a.Allowed {
			p.one(rule.TakeUpTo, limit, "used", l.Capacity())
		}
		p.giveBack(limit, "used", 0, rule.Oldest)
		p.giveBack(limit, "used", 1, filled-3*l.Window) // nothing is there any more
		p.moveTo(filled)
		p.one(rule.Peek, limit, "used", 1)
		p.moveTo(filled + later - 1)
		p.one(rule.Peek, limit, "used", l.Capacity())
	}
}
