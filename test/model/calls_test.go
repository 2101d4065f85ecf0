package model_test

import (
	"fmt"

	"github.com/slidegate/slidegate"
	"github.com/slidegate/slidegate/rule"
	"github.com/slidegate/slidegate/test/model"
)

var keys = []string{"x", "y"}

// chosen returns the indexes of some limits: all, or one.
func (p *player) chosen(s *step, i int, slots bool) (indexes []int) {
	one := s.pick(i, 2*len(p.limits))
	for j, plans := range p.limits {
		if (one >= len(p.limits) || one == j) && (slots || plans[0].Algorithm != slidegate.InFlight) {
			indexes = append(indexes, j)
		}
	}
	return indexes
}

var limiterOps = []model.Op{
	model.Take, model.Take, model.Take, model.Take, model.Take, model.UpTo, model.UpTo, model.Peek, model.Charge, model.Refund, model.Refund,
	model.Reset,
}

// limiterCall draws a call of limits in force, for one key.
func (p *player) limiterCall(s *step) *call {
	c := &call{op: limiterOps[s.pick(0, len(limiterOps))], key: keys[s.pick(1, len(keys))]}
	if c.op == model.Reset && s.pick(7, 3) > 0 {
		c.op = model.Take
	}
	slots := c.op == model.Peek || c.op == model.Refund || c.op == model.Reset
	return p.limiterRequest(s, c, slots)
}

func (p *player) limiterRequest(s *step, c *call, slots bool) *call {
	for i, j := range p.chosen(s, 2, slots) {
		limit := p.limits[j][p.plans[j]]
		part := model.Part{Limit: model.Resolve(limit), Key: c.key}
		if i == 0 || s.pick(5, 2) == 0 {
			c.n = drawCost(s, 3, part.Limit, p.world.Room("", part))
		}
		c.limits, c.parts = append(c.limits, limit), append(c.parts, part)
	}
	if c.op == model.Take && s.pick(6, 30) == 0 {
		c.n = 0
	}
	for i := range c.parts {
		c.parts[i].Cost = c.n
		if c.parts[i].Limit.Slot() && c.op == model.Peek {
			c.parts[i].Cost = min(1, c.n)
		}
	}
	return c
}

var claimsOps = []model.Op{
	model.Take, model.Take, model.Take, model.UpTo, model.Peek, model.Charge, model.Refund, model.Reset,
}

// claimsCall draws a call of limits given with it, some of another plan than the one in force.
func (p *player) claimsCall(s *step) *call {
	c := &call{op: claimsOps[s.pick(0, len(claimsOps))]}
	if c.op == model.Reset && s.pick(7, 3) > 0 {
		c.op = model.Take
	}
	slots := c.op == model.Peek || c.op == model.Refund || c.op == model.Reset
	return p.claimsRequest(s, c, slots)
}

func (p *player) claimsRequest(s *step, c *call, slots bool) *call {
	c.group = []string{"", "g"}[s.pick(1, 2)]
	key := keys[s.pick(4, len(keys))]
	for i, j := range p.chosen(s, 2, slots) {
		plan := p.plans[j]
		if s.pick(5, 5) == 0 {
			plan = s.pick(6, len(p.limits[j]))
		}
		if c.group != "" && i > 0 { // only a group can have several keys
			key = keys[s.pick(7, len(keys))]
		}
		part := model.Part{Limit: model.Resolve(p.limits[j][plan]), Key: key}
		part.Cost = 1
		if !part.Limit.Slot() {
			part.Cost = drawCost(s, 3, part.Limit, p.world.Room(c.group, part))
		}
		c.parts = append(c.parts, part)
		c.claims = append(c.claims, slidegate.Claim{Limit: p.limits[j][plan], Key: key, Cost: part.Cost})
	}
	if last := len(c.parts) - 1; last >= 0 && s.pick(0, 10) == 0 && c.op != model.Reset && !c.parts[last].Limit.Slot() {
		c.twice = true
		c.claims = append(c.claims, c.claims[last])
		c.parts[last].Cost = bounded(2 * c.parts[last].Cost)
	}
	return c
}

// keepSlots is how a refund treats slots: they stay held if other limits are in the request.
func keepSlots(parts []model.Part) []model.Part {
	kept, others := append([]model.Part(nil), parts...), false
	for i := range kept {
		others = others || !kept[i].Limit.Slot()
	}
	for i := range kept {
		if kept[i].Limit.Slot() && others {
			kept[i].Cost = 0
		}
	}
	return kept
}

// call carries out a call on the store and in the model, and compares.
func (p *player) call(c *call) error {
	if len(c.parts) == 0 {
		return nil
	}
	p.decisions++
	got, err := p.send(c)
	if err != nil {
		return fmt.Errorf("%s: %w", describe(c), err)
	}
	p.note("%s: %v", describe(c), got)
	if got.Flags&rule.Cached != 0 {
		return p.checkCached(c, got)
	}
	parts := c.parts
	if c.op == model.Refund {
		parts = keepSlots(parts)
	}
	wants := p.world.Decide(c.op, c.group, "", parts)
	if c.op == model.Reset {
		return nil
	}
	p.remember(c, got)
	return model.CheckDecision(got, c.perClaim(wants))
}

// perClaim returns the wants of the claims: claims of one address share one.
func (c *call) perClaim(wants []model.Want) []model.Want {
	if c.twice {
		return append(wants, wants[len(wants)-1])
	}
	return wants
}

// remember counts what happened, and keeps a refusal, for prove.
func (p *player) remember(c *call, got slidegate.Decision) {
	event := map[bool]string{true: "admitted", false: "refused"}[got.Allowed]
	if got.RetryAfter == slidegate.Never {
		event = "never"
	}
	p.events[event]++
	if got.Flags&rule.ClockMoved != 0 {
		p.events["clock moved"]++
	}
	if !got.Allowed {
		p.refused, p.wait = c, got.RetryAfter
	}
}

func (p *player) send(c *call) (d slidegate.Decision, err error) {
	if c.claims != nil {
		return sendClaims(p, c)
	}
	limiter, err := p.base.With(c.limits...)
	if err != nil {
		return d, err
	}
	switch c.op {
	case model.Take:
		if c.n == 1 {
			return limiter.Allow(p.ctx, c.key)
		}
		return limiter.AllowN(p.ctx, c.key, c.n)
	case model.UpTo:
		return limiter.AllowUpTo(p.ctx, c.key, c.n)
	case model.Peek:
		return limiter.Peek(p.ctx, c.key, c.n)
	case model.Charge:
		return limiter.Charge(p.ctx, c.key, c.n)
	case model.Refund:
		return limiter.Refund(p.ctx, c.key, c.n)
	default:
		return d, limiter.Reset(p.ctx, c.key)
	}
}

func sendClaims(p *player, c *call) (d slidegate.Decision, err error) {
	if only := c.claims[0]; len(c.claims) == 1 && only.Cost == 1 && c.group == "" && c.op == model.Take {
		return p.base.For(slidegate.Claim{Limit: only.Limit, Key: only.Key}).Allow(p.ctx)
	}
	claims := p.base.For(c.claims...).InGroup(c.group)
	switch c.op {
	case model.Take:
		return claims.Allow(p.ctx)
	case model.UpTo:
		return claims.AllowUpTo(p.ctx)
	case model.Peek:
		return claims.Peek(p.ctx)
	case model.Charge:
		return claims.Charge(p.ctx)
	case model.Refund:
		return claims.Refund(p.ctx)
	default:
		return d, claims.Reset(p.ctx)
	}
}
