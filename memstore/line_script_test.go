package memstore

import (
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/slidegate/slidegate/internal/quick"
	"github.com/slidegate/slidegate/rule"
)

// These tests compare a slot of lines with the rule: random scripts are played on a slot and on a state of the rule side by
// side.

// lineScript is a slot on a page and the state that it must contain.
type lineScript struct {
	t      *testing.T
	random *rand.Rand
	form   lineForm
	widen  func() lineForm // the form for states that are too wide; nil if there is none
	slot   *line
	clock  clock
	now    rule.Micros
	want   rule.State
	quick  int  // takes decided without acquiring the slot
	even   bool // mostly small costs at an even pace, so that many parts are used
}

const scriptHash = 12345

// newLineScript returns a script over a slot of zeros. The caller must set its form and start.
func newLineScript(t *testing.T, seed uint64) *lineScript {
	p := &lineScript{t: t, random: rand.New(rand.NewPCG(seed, 0)), slot: &new(page).lines[7]}
	p.clock.now = func() rule.Micros { return p.now }
	p.slot[hashWord].Store(scriptHash)
	return p
}

// write acquires the slot and changes it.
func (p *lineScript) write(change func(control uint64) uint64) {
	control, ok := p.slot.acquire()
	if !ok {
		p.t.Fatal("the slot has moved")
	}
	p.slot.release(change(control))
}

// take sends a take to both and compares the answers and the states.
func (p *lineScript) take(limit *rule.Limit, cost int64) rule.Answer {
	before := p.want.Clone()
	want, changed := limit.TakeOne(&p.want, p.now, cost)
	outcome, remaining, after, resetAfter, at := p.form.take(p.slot, scriptHash, limit, &p.clock, cost, nil)
	if outcome == quick.Undecided {
		p.same(&before, limit)
		if changed {
			p.store(&p.want)
		}
		p.same(&p.want, limit)
		return want
	}
	p.quick++
	got := rule.Answer{Allowed: outcome == quick.Admitted, Remaining: remaining, ResetAfter: resetAfter, At: at}
	if got.Allowed {
		got.Granted, got.NextAfter = cost, after
	} else {
		got.RetryAfter = after
	}
	if got != want {
		p.t.Fatalf("%+v\n%+v at %d, cost %d: the slot answers %+v, the rule %+v", limit, before, p.now, cost, got, want)
	}
	p.same(&p.want, limit)
	return want
}

// giveBack takes back the oldest units, or recent ones, as the slow path does.
func (p *lineScript) giveBack(limit *rule.Limit, cost int64) {
	item := []rule.Item{{Limit: limit, State: &p.want, Cost: cost, At: rule.Oldest}}
	if p.random.IntN(2) == 0 {
		item[0].At = max(1, p.now)
	}
	rule.Decide(rule.GiveBack, item, p.now, make([]rule.Answer, 1))
	if item[0].Changed {
		p.store(&p.want)
	}
	p.same(&p.want, limit)
}

// store writes a state as the slow path does, into a wider form if necessary.
func (p *lineScript) store(s *rule.State) {
	p.write(func(control uint64) uint64 {
		next, outcome := p.form.store(p.slot, control, s)
		if outcome == tooWide && p.widen != nil {
			p.form, p.slot, p.widen = p.widen(), &new(page).lines[3], nil
			p.slot[hashWord].Store(scriptHash)
			next, outcome = p.form.store(p.slot, p.form.clear(p.slot, control), s)
		}
		if outcome != stored {
			p.t.Fatalf("%+v was not stored: %d", s, outcome)
		}
		return next
	})
}

// same fails unless the slot contains s.
func (p *lineScript) same(s *rule.State, limit *rule.Limit) {
	p.t.Helper()
	var got rule.State
	control := p.slot[controlWord].Load()
	p.form.load(p.slot, control, &got)
	want := s.Clone()
	if limit.Parts() > 0 && len(want.Counts) == 0 {
		want.Start, want.Counts = rule.Absent, make([]int64, limit.Parts())
	}
	if a, b := timesOf(&got.Log), timesOf(&want.Log); limit.Algorithm == rule.DefaultAlgorithm && !slices.Equal(a, b) {
		p.t.Fatalf("%+v\nthe slot holds the log %v, the rule %v", limit, a, b)
	}
	if limit.Algorithm == rule.DefaultAlgorithm && !want.InParts() {
		want.Start, want.Counts = got.Start, got.Counts
		if got.InParts() {
			p.t.Fatalf("%+v\nthe slot holds %+v, the rule a log", limit, got)
		}
	}
	if limit.Algorithm == rule.TokenBucket && want.Missing == 0 && want.Rest == 0 { // the times of a full bucket are meaningless
		got.Start, got.Until = want.Start, want.Until
	}
	if got.Start != want.Start || got.Until != want.Until || got.Missing != want.Missing || got.Rest != want.Rest ||
		!slices.Equal(got.Counts, want.Counts) {
		p.t.Fatalf("%+v\nthe slot holds %+v, the rule %+v", limit, got, want)
	}
	if got, want := p.form.expires(p.slot, control), limit.Expires(s); got != want {
		p.t.Fatalf("%+v\n%+v expires at %d, want %d", limit, s, want, got)
	}
}

// step moves the clock: not at all, a little, to the next change according to the last answer or next to it, or far away.
func (p *lineScript) step(limit *rule.Limit, last rule.Answer) {
	part := limit.Window / rule.Micros(max(1, limit.Segments))
	if p.even && p.random.IntN(100) > 0 {
		p.now = min(rule.MaxNow, p.now+rule.Micros(p.random.Int64N(int64(part)*3/2+1)))
		return
	}
	switch p.random.IntN(16) {
	case 0, 1, 2, 3:
		p.now += rule.Micros(p.random.Int64N(int64(part)/8 + 1))
	case 4, 5:
		p.now += rule.Micros(p.random.Int64N(int64(part) + 1))
	case 6:
		p.now += last.NextAfter + rule.Micros(p.random.Int64N(3)) - 1
	case 7:
		if !last.Allowed && last.RetryAfter != rule.Never {
			p.now += last.RetryAfter + rule.Micros(p.random.Int64N(3)) - 1
		}
	case 8:
		p.now += rule.Micros(p.random.Int64N(int64(limit.Window))) / 2
	case 9:
		if p.random.IntN(10) == 0 {
			p.now += last.ResetAfter + rule.Micros(p.random.Int64N(3)) - 1
		}
	case 10:
		if p.random.IntN(4) == 0 {
			p.now -= rule.Micros(p.random.Int64N(int64(part)))
		}
	case 11:
		if p.random.IntN(20) == 0 {
			p.now += rule.Micros(p.random.Int64N(6*int64(limit.Window))) - 3*limit.Window
		}
	}
	p.now = min(max(0, p.now), rule.MaxNow)
}

// cost returns a cost, often everything that is left or one more.
func (p *lineScript) cost(limit *rule.Limit) int64 {
	room := limit.Capacity() - limit.Used(&p.want, p.now)
	if p.even && p.random.IntN(10) > 0 {
		return min(1+p.random.Int64N(3), limit.Capacity())
	}
	switch p.random.IntN(12) {
	case 0:
		return 0
	case 1:
		return min(max(0, room+p.random.Int64N(3)-1), rule.MaxQuota)
	case 2:
		return min(limit.Capacity()+p.random.Int64N(3)-1, rule.MaxQuota)
	case 3, 4:
		return p.random.Int64N(limit.Capacity()/8 + 2)
	default:
		return 1
	}
}

// play plays a script over limits of the same shape, switching between them from time to time.
func (p *lineScript) play(steps int, limits []rule.Limit) {
	var last rule.Answer
	limit := &limits[0]
	for range steps {
		if p.random.IntN(30) == 0 {
			limit = &limits[p.random.IntN(len(limits))]
		}
		p.step(limit, last)
		if p.random.IntN(40) == 0 {
			p.giveBack(limit, p.cost(limit))
		}
		last = p.take(limit, p.cost(limit))
	}
}

// drawn returns a number up to most, of any magnitude.
func drawn(random *rand.Rand, most int64) int64 {
	return 1 + random.Int64N(most)>>random.IntN(63)
}

// origin returns a time at which a script may begin.
func (p *lineScript) origin(window rule.Micros) rule.Micros {
	switch p.random.IntN(4) {
	case 0:
		return rule.Micros(p.random.Int64N(2 * int64(window)))
	case 1:
		return rule.MaxNow - 2*window
	}
	return 1_767_225_600_000_000 + rule.Micros(p.random.Int64N(int64(window)))
}

// normal returns a limit with its defaults.
func normal(t testing.TB, l rule.Limit) rule.Limit {
	t.Helper()
	n, err := l.Normalize()
	if err != nil {
		t.Fatal(err)
	}
	return n
}
