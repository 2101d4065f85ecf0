package storetest

import (
	"fmt"
	"testing"
	"time"

	"github.com/slidegate/slidegate"
	"github.com/slidegate/slidegate/rule"
)

// checkState: state belongs to namespace, name, key and shape. A limit of another shape starts empty; if quota, burst,
// overlap or whether refusals count changes, the counts stay.
func checkState(t testing.TB, s *suite) {
	p := s.pair(t)
	checkShapesApart(p)
	checkPlansShare(p)
	checkShrunkLog(p)
	checkChangedBucket(p)
}

// checkChangedBucket: what was used of a bucket stays used, and refills at the rate of the requesting limit.
func checkChangedBucket(p *pair) {
	p.t.Helper()
	for i, change := range []struct {
		from, to slidegate.Limit
		next     time.Duration
	}{
		{slidegate.Limit{Quota: 10, Burst: 10}, slidegate.Limit{Quota: 1000, Burst: 10}, 3600 * time.Millisecond},
		{slidegate.Limit{Quota: 1, Burst: 1}, slidegate.Limit{Quota: 1000, Burst: 1}, 3600 * time.Millisecond},
		{slidegate.Limit{Quota: 1000, Burst: 10}, slidegate.Limit{Quota: 10, Burst: 10}, 6 * time.Minute},
		{slidegate.Limit{Quota: 10, Burst: 1000}, slidegate.Limit{Quota: 10, Burst: 5}, 996 * 6 * time.Minute},
	} {
		p.forgetSubjects()
		p.title = "changed bucket"
		for _, limit := range []*slidegate.Limit{&change.from, &change.to} {
			limit.Name, limit.Window, limit.Algorithm = fmt.Sprintf("changed-%d", i), time.Hour, slidegate.TokenBucket
		}
		limits := p.bindAll(change.from, change.to)
		if len(limits) < 2 {
			continue
		}
		p.single(rule.Take, limits[0], "key", change.from.Burst)
		a := p.single(rule.Take, limits[1], "key", 1)
		if a.Allowed || a.RetryAfter != rule.Micros(change.next.Microseconds()) || a.Flags != 0 {
			p.fatalf("after the change from %v to %v: got %+v, want a refusal for %v", change.from, change.to, a, change.next)
		}
		p.moveBy(a.RetryAfter - 1)
		p.single(rule.Take, limits[1], "key", 1)
		p.moveBy(1)
		if a = p.single(rule.Take, limits[1], "key", 1); !a.Allowed {
			p.fatalf("after RetryAfter: got %+v, want an admission", a)
		}
	}
}

// checkShapesApart: limits of one name and key whose shapes differ, in each possible way.
func checkShapesApart(p *pair) {
	p.t.Helper()
	p.title = "shapes"
	first := slidegate.AnchorFirst
	limits := p.bindAll(
		slidegate.Limit{Quota: 1_000_000, Window: time.Hour},
		slidegate.Limit{Quota: 1_000_000, Window: time.Hour, Anchor: first},
		slidegate.Limit{Quota: 1_000_000, Window: time.Hour, Segments: 2},
		slidegate.Limit{Quota: 1_000_000, Window: time.Hour, Segments: 20},
		slidegate.Limit{Quota: 1_000_000, Window: 2 * time.Hour},
		slidegate.Limit{Quota: 1_000_000, Window: 2 * time.Hour, Segments: 2},
		slidegate.Limit{Quota: 1_000_000, Window: time.Hour, Algorithm: slidegate.FixedWindow},
		slidegate.Limit{Quota: 1_000_000, Window: time.Hour, Algorithm: slidegate.FixedWindow, Anchor: first},
		slidegate.Limit{Quota: 1_000_000, Window: 2 * time.Hour, Algorithm: slidegate.FixedWindow},
		slidegate.Limit{Quota: 10_000, Window: time.Hour, Algorithm: slidegate.SlidingLog},
		slidegate.Limit{Quota: 10_000, Window: 2 * time.Hour, Algorithm: slidegate.SlidingLog},
		slidegate.Limit{Quota: 1_000_000, Window: time.Hour, Algorithm: slidegate.TokenBucket},
		slidegate.Limit{Quota: 1_000_000, Window: 2 * time.Hour, Algorithm: slidegate.TokenBucket},
	)
	var subjects []subject
	for _, limit := range limits {
		subjects = append(subjects, subject{limit, "", "shapes"})
	}
	checkDistinct(p, subjects)
}

// checkPlansShare: a key that changes plans keeps what it has used, in both directions.
func checkPlansShare(p *pair) {
	p.t.Helper()
	p.title = "plans"
	for _, limit := range smallLimits() {
		p.forgetSubjects()
		limit.Name = "plan"
		larger, variant := limit, variantOf(limit)
		larger.Quota = 100
		plans := p.bindAll(limit, larger, variant)
		if len(plans) < 3 {
			continue
		}
		p.single(rule.Take, plans[0], "plans", 10)
		want := larger.Quota - 10
		if a := p.single(rule.Peek, plans[1], "plans", 1); a.Remaining != want {
			p.fatalf("after 10 units and a change of quota to %d, %d remain, want %d", larger.Quota, a.Remaining, want)
		}
		for range 3 {
			for _, plan := range plans {
				p.single(rule.Take, plan, "plans", 7)
				p.moveBy(plan.Rule().Window / 7)
				p.single(rule.Peek, plan, "plans", 1)
			}
		}
	}
}

// checkShrunkLog: a log whose quota shrinks keeps all units that count.
func checkShrunkLog(p *pair) {
	p.t.Helper()
	p.forgetSubjects()
	p.title = "shrunk log"
	log := slidegate.Limit{Name: "shrunk", Quota: 6, Window: time.Hour, Algorithm: slidegate.SlidingLog}
	smaller := log
	smaller.Quota = 3
	limits := p.bindAll(log, smaller)
	if len(limits) < 2 {
		return
	}
	for range 6 {
		p.single(rule.Take, limits[0], "key", 1)
		p.moveBy(rule.Micros(time.Minute.Microseconds()))
	}
	// The units were charged at minutes 0 to 5, and it is minute 6. One fits as soon as only two count: those of minutes 4
	// and 5, from minute 63 on.
	refused := p.single(rule.Take, limits[1], "key", 1)
	if want := (57 * time.Minute).Microseconds(); refused.Allowed || refused.RetryAfter != rule.Micros(want) {
		p.fatalf("after the quota shrank: got %+v, want a refusal for %dus", refused, want)
	}
	p.moveBy(refused.RetryAfter)
	p.single(rule.Take, limits[1], "key", 1)
	p.single(rule.Peek, limits[0], "key", 1)
}
