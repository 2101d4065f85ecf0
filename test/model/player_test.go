package model_test

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/slidegate/slidegate"
	"github.com/slidegate/slidegate/rule"
	"github.com/slidegate/slidegate/store"
	"github.com/slidegate/slidegate/storetest"
	"github.com/slidegate/slidegate/test/model"
)

// player plays a game on a store and in the model.
type player struct {
	*game
	ctx          context.Context
	clock        *storetest.Clock
	world        *model.World
	base         *slidegate.Limiter
	elsewhere    *slidegate.Limiter // the same store in another process, or nil
	maxAge       model.Micros       // how long a refusal may be remembered after a change elsewhere
	changed      model.Micros       // when something was given back elsewhere
	plans        []int              // the plan of each limit that is in force
	reservations []*held
	refused      *call // the last call that was refused
	wait         time.Duration
	decisions    int
	events       map[string]int
	lines        []string
}

// held is a reservation, and what the model knows about it.
type held struct {
	slidegate.Reservation
	group   string
	parts   []model.Part
	settled int // how often
}

// call is a request to a limiter.
type call struct {
	op     model.Op
	group  string
	key    string
	limits []slidegate.Limit // the limiter's limits, in force at the time
	claims []slidegate.Claim // instead
	twice  bool              // the last claim is there twice, so its costs add up
	n      int64
	parts  []model.Part
}

func newPlayer(g *game, on store.Store, clock *storetest.Clock, namespace string) (*player, error) {
	p := &player{
		game: g, ctx: context.Background(), clock: clock, world: model.NewWorld(g.start), plans: make([]int, len(g.limits)),
		events: map[string]int{},
	}
	clock.Set(rule.Micros(g.start))
	var first []slidegate.Limit
	for _, plans := range g.limits {
		first = append(first, plans[0])
	}
	var err error
	p.base, err = slidegate.New(slidegate.Namespace(on, namespace), first...)
	return p, err
}

func (p *player) note(format string, args ...any) {
	p.lines = append(p.lines, fmt.Sprintf(format, args...))
}

// play plays all steps, and returns the first difference.
func (p *player) play() (err error) {
	for i := range p.steps {
		if err := p.step(&p.steps[i]); err != nil {
			return err
		}
	}
	return nil
}

func (p *player) step(s *step) error {
	switch s.kind {
	case ofLimiter:
		return p.call(p.limiterCall(s))
	case ofClaims:
		return p.call(p.claimsCall(s))
	case reserve:
		return p.reserve(s)
	case settle:
		return p.settle(s)
	case renew:
		return p.renew(s)
	case changePlan:
		i := s.pick(0, len(p.limits))
		p.plans[i] = s.pick(1, len(p.limits[i]))
		p.note("plan %v", p.limits[i][p.plans[i]])
		p.events["plan changed"]++
	case forward:
		p.advance(p.drawTime(s))
	case jump:
		p.advance(p.drawTime(s) * model.Micros(1+s.pick(4, 200)))
	case back:
		by := p.drawTime(s)
		if s.pick(4, 3) == 0 {
			by *= model.Micros(1 + s.pick(6, 50))
		}
		return p.stepBack(by)
	case story:
		return p.story(s)
	case prove:
		return p.prove()
	}
	return nil
}

// story is a reservation that is held while its key gets another plan and uses it up.
func (p *player) story(s *step) error {
	for i, k := range []kind{reserve, reserve, forward, changePlan, ofLimiter, settle, ofClaims} {
		if k == forward && s.pick(0, 2) == 0 {
			continue
		}
		next := step{kind: k}
		for j := range next.r {
			next.r[j] = s.r[(i+j)%len(s.r)] >> i
		}
		if k != ofLimiter {
			if err := p.step(&next); err != nil {
				return err
			}
			continue
		}
		rest := p.limiterRequest(&next, &call{op: model.UpTo, key: keys[s.pick(0, len(keys))]}, false)
		rest.n = 1 << 40
		for i := range rest.parts {
			rest.parts[i].Cost = rest.n
		}
		if err := p.call(rest); err != nil {
			return err
		}
	}
	return nil
}

var latest = time.Date(2200, 1, 1, 0, 0, 0, 0, time.UTC).UnixMicro()

func (p *player) advance(by model.Micros) {
	if by < 0 || p.world.Now > latest-by {
		return
	}
	p.world.Advance(by)
	p.clock.Set(rule.Micros(p.world.Now))
	p.note("%+d µs", by)
}

// stepBack sets the clock back. What has expired may have been forgotten or not, so those keys are reset.
func (p *player) stepBack(by model.Micros) error {
	if p.world.Now-by < p.start/2 {
		return nil
	}
	for _, place := range p.world.Over() {
		if err := p.base.For(slidegate.Claim{Limit: place.Limit.Limit, Key: place.Key}).InGroup(place.Group).Reset(p.ctx); err != nil {
			return err
		}
		p.world.Forget(place)
	}
	p.world.Advance(-by)
	p.clock.Set(rule.Micros(p.world.Now))
	p.note("%+d µs", -by)
	return nil
}

// drawTime draws a time that matters to one of the limits.
func (p *player) drawTime(s *step) model.Micros {
	l := p.limits[s.pick(0, len(p.limits))][0]
	window := l.Window.Microseconds()
	if l.Calendar != 0 {
		window = []model.Micros{3600e6, 86_400e6, 7 * 86_400e6, 30 * 86_400e6}[s.pick(5, 4)]
	}
	part := window / max(1, model.Micros(l.Segments))
	if l.Calendar == 0 {
		part = model.Resolve(l).Part()
	}
	switch s.pick(1, 9) {
	case 0:
		return 1
	case 1:
		return window
	case 2:
		return window + model.Micros(s.pick(2, 3)) - 1
	case 3:
		return part - p.world.Now%part
	case 4:
		return part * model.Micros(s.pick(2, 4))
	case 5:
		return 1 + model.Micros(s.r[2]%uint64(2*window))
	case 6:
		return window/max(1, l.Quota) + model.Micros(s.pick(2, 3)) - 1
	case 7:
		return 1 + model.Micros(s.r[2]%uint64(max(1, window/100)))
	default:
		return 1 + model.Micros(s.r[2]%uint64(window))
	}
}

// prove checks the RetryAfter of the last refusal on the store itself.
func (p *player) prove() error {
	c := p.refused
	if c == nil || p.wait == slidegate.Never || p.world.Now > latest-p.wait.Microseconds() {
		return nil
	}
	p.refused = nil
	again := *c
	if again.op != model.UpTo {
		again.op = model.Peek
	}
	for _, by := range []model.Micros{p.wait.Microseconds() - 1, 1} {
		p.advance(by)
		if err := p.call(&again); err != nil {
			return err
		}
		if again.op == model.UpTo {
			return nil
		}
	}
	p.events["proved"]++
	return nil
}

// drawCost draws a cost around what is left of a limit.
func drawCost(s *step, i int, l *model.Limit, room int64) int64 {
	switch s.pick(i, 16) {
	case 0:
		return 2
	case 1, 2:
		return bounded(room)
	case 3:
		return bounded(room + 1)
	case 4:
		return bounded(room - 1)
	case 5:
		return l.Quota
	case 6:
		return bounded(l.Quota + l.Burst/2 + 1)
	case 7, 8, 9:
		return 1 + int64(s.r[i]>>8%uint64(l.Quota))
	default:
		return 1
	}
}

func bounded(n int64) int64 { return min(max(1, n), 1<<53-1) }

func describe(c *call) string {
	if c.claims == nil {
		return fmt.Sprintf("%s key %s, cost %d of %v", c.op, c.key, c.n, c.limits)
	}
	var parts []string
	for _, claim := range c.claims {
		parts = append(parts, fmt.Sprintf("%d of %v key %s", claim.Cost, claim.Limit, claim.Key))
	}
	return fmt.Sprintf("%s group %q [%s]", c.op, c.group, strings.Join(parts, ", "))
}
