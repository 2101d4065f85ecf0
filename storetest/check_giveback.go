package storetest

import (
	"fmt"
	"testing"
	"time"

	"github.com/slidegate/slidegate"
	"github.com/slidegate/slidegate/rule"
	"github.com/slidegate/slidegate/store"
)

// checkGiveBack: units return to where they were charged, never more than are there; charges that cannot be refused exceed
// the quota; a reset forgets.
func checkGiveBack(t testing.TB, s *suite) {
	p := s.pair(t)
	for i, limit := range catalogue() {
		p.title = limit.String()
		limit.Name = "scripted"
		if bound := p.bind(limit); bound != nil {
			p.forgetSubjects()
			p.moveTo(epoch + rule.Micros(i))
			giveBackScript(p, bound, fmt.Sprintf("key-%d", i))
			giveBackEarlier(p, bound, fmt.Sprintf("earlier-%d", i))
		}
	}
	checkGivenBack(p)
	for _, limit := range append(smallLimits(), extremeLimits()...) {
		p.title = limit.String()
		limit.Name = "reset"
		if bound := p.bind(limit); bound != nil {
			p.forgetSubjects()
			p.moveTo(rule.MaxNow / 2) // far from both ends: five windows may be 25 years
			checkResetForgetsTime(p, bound, "key")
		}
	}
	checkRefilled(p)
	for i, limit := range append(smallLimits(), extremeLimits()...) {
		if q := p.sequence(i, givingBack, limit); q != nil {
			q.play(s.times(60))
		}
	}
}

// giveBackScript takes one limit through all ways of giving back.
func giveBackScript(p *pair, limit *store.Limit, key string) {
	p.t.Helper()
	l := limit.Rule()
	third := max(1, l.Capacity()/3)
	first := p.single(rule.Take, limit, key, third)
	p.moveBy(partOf(l))
	second := p.single(rule.Take, limit, key, third)
	p.giveBack(limit, key, 1, first.At)
	p.giveBack(limit, key, 0, second.At)
	p.giveBack(limit, key, rule.MaxQuota, second.At) // more than is there
	p.giveBack(limit, key, 1, second.At)             // nothing is there any more
	p.single(rule.Peek, limit, key, l.Capacity())
	p.single(rule.TakeUpTo, limit, key, third)
	p.moveBy(1)
	p.single(rule.Take, limit, key, 1)
	p.giveBack(limit, key, third, rule.Oldest)
	p.giveBack(limit, key, rule.MaxQuota, rule.Oldest)
	p.giveBack(limit, "never-seen", 1, rule.Oldest)
	p.giveBack(limit, "never-seen", 1, first.At)

	p.single(rule.Charge, limit, key, min(rule.MaxQuota, 2*l.Capacity()))
	p.single(rule.Take, limit, key, 1)
	p.single(rule.Peek, limit, key, 0)
	charged := p.single(rule.Charge, limit, key, rule.MaxQuota) // counts saturate
	p.giveBack(limit, key, third, charged.At)
	p.single(rule.Peek, limit, key, 1)
	p.moveBy(2*l.Window + 1)
	p.giveBack(limit, key, 1, charged.At) // it has left the window
	p.single(rule.Take, limit, key, third)
	p.single(rule.Reset, limit, key, 0)
	p.giveBack(limit, key, 1, rule.Oldest)
	p.single(rule.Take, limit, key, l.Capacity())
}

// giveBackEarlier gives back what was charged before the last charge, and checks when that would have left the window.
func giveBackEarlier(p *pair, limit *store.Limit, key string) {
	p.t.Helper()
	l := limit.Rule()
	third := max(1, l.Capacity()/3)
	first := p.single(rule.Take, limit, key, third)
	p.moveBy(partOf(l))
	p.single(rule.Take, limit, key, third)
	p.giveBack(limit, key, third-third/2, first.At)
	for _, after := range []rule.Micros{l.Window - partOf(l), l.Window - 1, l.Window, l.Window + 1, l.Window + partOf(l)} {
		p.moveTo(max(p.clock.Now(), first.At+after))
		p.single(rule.Peek, limit, key, l.Capacity())
	}
}

// checkRefilled: units refilled since they were taken are free already, and must not be given back as well.
func checkRefilled(p *pair) {
	p.t.Helper()
	p.forgetSubjects()
	p.title = "refilled"
	limit := p.bind(slidegate.Limit{Name: "refilled", Quota: 100, Window: time.Minute, Algorithm: slidegate.TokenBucket})
	if limit == nil {
		return
	}
	p.moveTo(epoch)
	first := p.single(rule.Take, limit, "key", 100)
	p.moveBy(limit.Rule().Window - 1)
	p.single(rule.Take, limit, "key", 99)
	p.giveBack(limit, "key", 100, first.At)
	if a := p.single(rule.Take, limit, "key", 100); a.Allowed || a.Remaining != 1 {
		p.fatalf("taking all after giving back refilled units: got %+v, want a refusal with 1 remaining", a)
	}
}

// checkResetForgetsTime: a reset also forgets the time of the counts, so that an older clock decides at its own time. That
// also holds for expired counts that the store still has.
func checkResetForgetsTime(p *pair, limit *store.Limit, key string) {
	p.t.Helper()
	l, start := limit.Rule(), p.clock.Now()
	for _, idle := range []rule.Micros{0, partOf(l), l.Window, 2 * l.Window} {
		for _, back := range []rule.Micros{1, partOf(l), 5 * l.Window} {
			p.moveTo(start)
			p.single(rule.Take, limit, key, 1)
			p.moveBy(idle)
			p.single(rule.Reset, limit, key, 0)
			p.moveTo(start - back)
			p.single(rule.Peek, limit, key, 1)
			p.single(rule.Take, limit, key, min(rule.MaxQuota, l.Capacity()+1))
		}
	}
}

// checkGivenBack: a plain case with numbers worked out by hand.
func checkGivenBack(p *pair) {
	p.t.Helper()
	p.forgetSubjects()
	p.title = "given back"
	for _, limit := range p.bindAll(
		slidegate.Limit{Name: "given-back", Quota: 10, Window: time.Hour, Segments: 6, Overlap: slidegate.OverlapWhole},
		slidegate.Limit{Name: "given-back", Quota: 10, Window: time.Hour, Algorithm: slidegate.SlidingLog},
	) {
		expect := func(a rule.Answer, granted, left int64) {
			p.t.Helper()
			if a.Granted != granted || a.Remaining != left || !a.Allowed {
				p.fatalf("%d were given back and %d remain, want %d and %d", a.Granted, a.Remaining, granted, left)
			}
		}
		p.moveTo(epoch)
		first := p.single(rule.Take, limit, "key", 5)
		p.moveBy(limit.Rule().Window / 6)
		second := p.single(rule.Take, limit, "key", 4)
		p.moveBy(limit.Rule().Window / 6)
		expect(p.giveBack(limit, "key", 2, first.At), 2, 3)
		expect(p.giveBack(limit, "key", 9, second.At), 4, 7)
		expect(p.giveBack(limit, "key", 1, second.At), 0, 7)
		expect(p.giveBack(limit, "key", 1, rule.Oldest), 1, 8)
		expect(p.giveBack(limit, "key", 9, rule.Oldest), 2, 10)
		expect(p.single(rule.Charge, limit, "key", 12), 12, 0)
		expect(p.single(rule.Reset, limit, "key", 0), 0, 10)
	}
}
