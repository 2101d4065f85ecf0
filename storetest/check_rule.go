package storetest

import (
	"fmt"
	"testing"
	"time"

	"github.com/slidegate/slidegate"
	"github.com/slidegate/slidegate/rule"
)

// checkRule: the store decides as the rule does, for every limit, at every time.
func checkRule(t testing.TB, s *suite) {
	p := s.pair(t)
	playScripts(p)
	for i, limit := range catalogue() {
		if q := p.sequence(i, everyOp, limit); q != nil {
			p.moveTo(epoch)
			q.play(s.times(100))
		}
	}
	for i, limit := range append(slots(), calendars()...) {
		if q := p.sequenceOf(500+i, everyOp, limit); q != nil {
			p.moveTo(epoch)
			q.play(s.times(150))
		}
	}
	// A port that uses floating point is exact up to the end of the accepted range, or not at all.
	late := s.pair(t)
	for i, limit := range extremeLimits() {
		if q := late.sequence(1_000+i, everyOp, limit); q != nil {
			late.moveTo(rule.MaxNow - rule.Micros(2*limit.Window.Microseconds()))
			q.play(s.times(30))
		}
	}
}

// scriptStep is one request of a script, and its expected result. The numbers are worked out from the text of the rule and
// not by the code, so that the suite does not rely on the code for everything.
type scriptStep struct {
	at      time.Duration // since the start of the script
	op      rule.Op
	cost    int64
	allowed bool
	left    int64
	retry   time.Duration
	reset   time.Duration
}

func playScripts(p *pair) {
	p.t.Helper()
	for i, script := range scripts() {
		script.limit.Name = fmt.Sprintf("script-%d", i)
		limit := p.bind(script.limit)
		if limit == nil {
			continue
		}
		start := epoch - epoch%limit.Rule().Window + limit.Rule().Window
		for _, step := range script.steps {
			p.moveTo(start + rule.Micros(step.at.Microseconds()))
			got := p.single(step.op, limit, "key", step.cost)
			want := got
			want.Allowed, want.Remaining, want.RetryAfter = step.allowed, step.left, rule.Micros(step.retry.Microseconds())
			want.ResetAfter = rule.Micros(step.reset.Microseconds())
			if step.retry == slidegate.Never {
				want.RetryAfter = rule.Never
			}
			if got != want {
				p.fatalf("the answer differs from the script\n answer: %+v\n script: %+v", got, want)
			}
		}
	}
}

type script struct {
	limit slidegate.Limit
	steps []scriptStep
}

func scripts() []script {
	const take, peek, micro, s, ms = rule.Take, rule.Peek, time.Microsecond, time.Second, time.Millisecond
	return []script{
		{slidegate.Limit{Quota: 10, Window: time.Minute, Algorithm: slidegate.SlidingWindow}, []scriptStep{
			{0, take, 10, true, 0, 0, 120 * s},
			{1 * s, take, 1, false, 0, 65 * s, 119 * s},   // a tenth has faded 6s into the next minute
			{-30 * s, take, 1, false, 0, 96 * s, 150 * s}, // the clock stepped back: the window does not
			{66*s - micro, take, 1, false, 0, micro, 54*s + micro},
			{66 * s, take, 1, true, 0, 0, 114 * s},
			{90 * s, peek, 1, true, 4, 0, 90 * s},
		}},
		{slidegate.Limit{Quota: 10, Window: time.Minute, Segments: 2, Overlap: slidegate.OverlapWhole}, []scriptStep{
			{0, take, 10, true, 0, 0, 90 * s},
			{90*s - micro, take, 1, false, 0, micro, micro},
			{90 * s, take, 10, true, 0, 0, 90 * s},
		}},
		{slidegate.Limit{Quota: 2, Window: time.Minute, Anchor: slidegate.AnchorFirst, CountRefused: true}, []scriptStep{
			{7 * s, take, 2, true, 0, 0, 120 * s},
			{8 * s, take, 1, false, 0, 99 * s, 119 * s}, // charged nevertheless: a third of three is left at 107s
			{8 * s, take, 3, false, 0, slidegate.Never, 119 * s},
			{107 * s, take, 1, true, 0, 0, 80 * s},
		}},
		{slidegate.Limit{Quota: 3, Window: time.Minute, Algorithm: slidegate.FixedWindow}, []scriptStep{
			{59 * s, take, 3, true, 0, 0, s},
			{59*s + 500*ms, take, 1, false, 0, 500 * ms, 500 * ms},
			{60 * s, take, 1, true, 2, 0, 60 * s},
		}},
		{slidegate.Limit{Quota: 3, Window: time.Minute, Algorithm: slidegate.SlidingLog}, []scriptStep{
			{0, take, 2, true, 1, 0, 60 * s},
			{10 * s, take, 1, true, 0, 0, 60 * s},
			{20 * s, take, 2, false, 0, 40 * s, 50 * s},
			{20 * s, take, 3, false, 0, 50 * s, 50 * s},
			{60 * s, take, 2, true, 0, 0, 60 * s}, // a unit that is exactly a window old has expired
		}},
		{slidegate.Limit{Quota: 60, Window: time.Minute, Algorithm: slidegate.TokenBucket, Burst: 10}, []scriptStep{
			{0, take, 10, true, 0, 0, 10 * s},
			{500 * ms, take, 1, false, 0, 500 * ms, 9*s + 500*ms},
			{500 * ms, take, 11, false, 0, slidegate.Never, 9*s + 500*ms},
			{1 * s, take, 1, true, 0, 0, 10 * s},
		}},
	}
}
