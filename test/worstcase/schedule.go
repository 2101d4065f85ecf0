// Package worstcase searches for the worst that a client can do to a limit: the times and amounts of requests for which the
// decision rule admits the most units in some window, or more than the quota in the shortest interval. The results are the
// table of docs/worst-cases.md, which a test here compares with the search. It is a tool for this project's own tests: no
// other package imports it.
package worstcase

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/slidegate/slidegate/rule"
)

// Window is the window of every limit in the tables but that of the default. It is divisible by every number of segments in the table, and its
// smallest part is so long that rounding to microseconds has no effect even with the largest quota.
const Window = rule.Micros(60_000_000)

// epoch is the time that schedules count from: a multiple of Window, and of the parts of the default, so that time 0 begins a part.
const epoch = 28_000_000 * Window

// Step is one action of the adversary.
type Step struct {
	At       rule.Micros // when it sends the request, since the schedule began
	Until    rule.Micros // if later than At: repeats until then or the next step, each time as soon as that much is free
	Late     rule.Micros // how much older than that its clock reading is, as if it had waited for a lock
	Cost     int64       // how much it requests at a time
	All      bool        // whether it requests all or nothing, so that it may be refused on purpose
	Other    bool        // whether it requests it under the other limit, if there is one
	Hold     rule.Micros // with leases: how long after that it spends the lease, at the latest when the lease ends
	Returned int64       // with leases: how much of the lease is given back instead of spent
}

// maxRun is how many times a single step takes. Runs of many small requests are slow to play and no better than fewer
// larger ones: what counts is the remainder, and a separate step takes that.
const maxRun = 50

// Schedule is what the adversary does to one key that was never seen before. Its steps are in order of At.
type Schedule []Step

// String writes the schedule in one line, for test logs and failures.
func (s Schedule) String() string {
	var b strings.Builder
	for i, step := range s {
		if i > 0 {
			b.WriteString("; ")
		}
		verb := "up to"
		if step.All {
			verb = "exactly"
		}
		fmt.Fprintf(&b, "at %dus %s %d", step.At, verb, step.Cost)
		if step.Until > step.At {
			fmt.Fprintf(&b, " until %dus", step.Until)
		}
		if step.Other {
			b.WriteString(" (under the other limit)")
		}
		if step.Late > 0 {
			fmt.Fprintf(&b, " (late by %dus)", step.Late)
		}
		if step.Hold > 0 {
			fmt.Fprintf(&b, " (held for %dus)", step.Hold)
		}
		if step.Returned > 0 {
			fmt.Fprintf(&b, " (%d given back)", step.Returned)
		}
	}
	return b.String()
}

// Admission is a number of units that were admitted, and the time that decided.
type Admission struct {
	At    rule.Micros
	Units int64
}

// player runs schedules against a limit and reuses its memory: a search runs many thousands.
type player struct {
	limit      rule.Limit
	other      *rule.Limit // of the same address, or nil
	apart      bool        // for tests: other has a state of its own
	state      rule.State
	otherState rule.State
	items      [1]rule.Item
	answers    [1]rule.Answer
	admissions []Admission
	requests   int // how many requests the last schedule sent

	step Step // the step being played

	// With leases only.
	life   Life // nil: units are spent immediately
	unsent []heldUnits
}

func newPlayer(l rule.Limit) *player { return &player{limit: l} }

// span is the time that schedules fill: enough for a window to become stale and two more to be filled.
func (p *player) span() rule.Micros { return 4 * p.limit.Window }

// current returns the limit of the step being played, and its state.
func (p *player) current() (*rule.Limit, *rule.State) {
	switch {
	case !p.step.Other || p.other == nil:
		return &p.limit, &p.state
	case p.apart:
		return p.other, &p.otherState
	default:
		return p.other, &p.state
	}
}

// Play returns what l admits of s, in order of time.
func Play(l rule.Limit, s Schedule) []Admission { return newPlayer(l).play(s) }

// play returns what is admitted, in memory that the next call reuses.
func (p *player) play(s Schedule) []Admission {
	p.state, p.otherState = rule.State{}, rule.State{}
	p.admissions, p.requests = p.admissions[:0], 0
	p.unsent = p.unsent[:0]
	for i, step := range s {
		p.step = step
		if step.Until > step.At {
			until := min(step.Until, p.span())
			if i+1 < len(s) {
				until = min(until, s[i+1].At)
			}
			p.takeGreedily(step.At, until, step.Cost)
			continue
		}
		op := rule.TakeUpTo
		if step.All {
			op = rule.Take
		}
		p.do(op, step.At-step.Late, step.Cost)
	}
	byTime := func(a, b Admission) int { return cmp.Compare(a.At, b.At) }
	if !slices.IsSortedFunc(p.admissions, byTime) { // only late readings and leases cause this
		slices.SortStableFunc(p.admissions, byTime)
	}
	return p.admissions
}

// takeGreedily takes cost units as soon as they are free, repeatedly. It peeks before it takes, because if refusals count a
// refusal would only hurt it.
func (p *player) takeGreedily(now, until rule.Micros, cost int64) {
	limit, _ := p.current()
	cost = min(cost, limit.Capacity())
	for taken := 0; now <= until && taken < maxRun; {
		if peek := p.do(rule.Peek, now, cost); !peek.Allowed {
			now += peek.RetryAfter
			continue
		}
		p.do(rule.Take, now, cost)
		taken++
	}
}

func (p *player) do(op rule.Op, now rule.Micros, cost int64) rule.Answer {
	p.requests++
	p.sendBack(now)
	limit, state := p.current()
	p.items[0] = rule.Item{Limit: limit, State: state, Cost: cost}
	rule.Decide(op, p.items[:], epoch+now, p.answers[:])
	answer := p.answers[0]
	switch {
	case op == rule.Peek || !answer.Allowed || answer.Granted == 0:
	case p.life != nil:
		p.hold(answer)
	default:
		p.admissions = append(p.admissions, Admission{At: answer.At - epoch, Units: answer.Granted})
	}
	return answer
}
