package model_test

import (
	"encoding/json"
	"fmt"
	"slices"

	"github.com/slidegate/slidegate"
	"github.com/slidegate/slidegate/rule"
	"github.com/slidegate/slidegate/test/model"
)

// reserve takes an estimate, and slots.
func (p *player) reserve(s *step) error {
	c := &call{op: model.Take, key: keys[s.pick(0, len(keys))]}
	var r slidegate.Reservation
	var got slidegate.Decision
	var err error
	if s.pick(4, 3) == 0 {
		p.claimsRequest(s, c, true)
		r, got, err = p.base.For(c.claims...).InGroup(c.group).Reserve(p.ctx)
	} else {
		p.limiterRequest(s, c, true)
		c.n = max(1, c.n)
		for i := range c.parts {
			c.parts[i].Cost = c.n
			if c.parts[i].Limit.Slot() {
				c.parts[i].Cost = 1
			}
		}
		limiter, failed := p.base.With(c.limits...)
		if failed != nil {
			return failed
		}
		r, got, err = limiter.Reserve(p.ctx, c.key, c.n)
	}
	p.decisions++
	if err != nil {
		return fmt.Errorf("reserve %s: %w", describe(c), err)
	}
	p.note("reserve %s: %v", describe(c), got)
	if got.Flags&rule.Cached != 0 {
		return p.checkCached(c, got)
	}
	wants := p.world.Decide(model.Take, c.group, r.ID, c.parts)
	if err := model.CheckDecision(got, c.perClaim(wants)); err != nil {
		return err
	}
	if !got.Allowed {
		peek := *c
		peek.op = model.Peek
		p.remember(&peek, got)
		return nil
	}
	h := &held{Reservation: r, group: c.group, parts: slices.Clone(c.parts)}
	for i := range h.parts {
		h.parts[i].At = wants[i].At
	}
	p.note("  is r%d", len(p.reservations))
	p.reservations = append(p.reservations, h)
	return nil
}

// choose returns the index of a reservation: mostly of the first that is preferred.
func (p *player) choose(s *step, preferred func(*held) bool) int {
	if i := slices.IndexFunc(p.reservations, preferred); i >= 0 && s.pick(6, 3) > 0 {
		return i
	}
	return s.pick(0, len(p.reservations))
}

// settle settles a reservation, often not for the first time.
func (p *player) settle(s *step) error {
	if len(p.reservations) == 0 {
		return nil
	}
	i := p.choose(s, func(h *held) bool { return h.settled == 0 })
	h := p.reservations[i]
	if s.pick(7, 4) == 0 { // a reservation can be stored and settled elsewhere
		text, err := json.Marshal(h.Reservation)
		if err != nil {
			return err
		}
		h.Reservation = slidegate.Reservation{}
		if err := json.Unmarshal(text, &h.Reservation); err != nil {
			return err
		}
	}
	parts, got, err := p.sendSettle(s, h)
	p.decisions++
	used := ""
	for _, part := range parts {
		used += fmt.Sprintf(" %d of %d", part.Used, part.Cost)
	}
	p.note("settle r%d to%s: %+v", i, used, got)
	if err != nil {
		return fmt.Errorf("settle r%d: %w", i, err)
	}
	h.settled++
	p.countSettlement(h, got)
	want, err := p.world.Settle(h.group, h.ID, parts, got.Repeated)
	if err != nil {
		return fmt.Errorf("settle r%d: %w", i, err)
	}
	if got.Repeated && p.world.Settled(h.group, h.ID, parts, got.Returned) {
		return nil
	}
	if !slices.Equal(got.Returned, want) {
		return fmt.Errorf("settle r%d: got %d returned, want %d", i, got.Returned, want)
	}
	return nil
}

// sendSettle settles a reservation in one of the ways, and returns what was used.
func (p *player) sendSettle(s *step, h *held) (parts []model.Part, got slidegate.Settlement, err error) {
	limiter := p.somewhere(s)
	parts = slices.Clone(h.parts)
	switch way := s.pick(1, 5); way {
	case 0:
		for j := range parts {
			parts[j].Used = 0
		}
		got, err = limiter.Cancel(p.ctx, h.Reservation)
	case 1:
		for j := range parts {
			parts[j].Used = parts[j].Cost
		}
		got, err = limiter.Release(p.ctx, h.Reservation)
	case 2:
		used := drawUsed(s, 2, parts[0].Cost, parts[0].Limit)
		for j := range parts {
			parts[j].Used = used
		}
		got, err = limiter.SettleAll(p.ctx, h.Reservation, used)
	default:
		got, err = limiter.Settle(p.ctx, h.Reservation, drawUsedEach(s, parts)...)
	}
	return parts, got, err
}

// drawUsed draws what was used of an estimate.
func drawUsed(s *step, i int, cost int64, l *model.Limit) int64 {
	switch s.pick(i, 6) {
	case 0:
		return 0
	case 1:
		return cost - 1
	case 2:
		return bounded(cost + 1)
	case 3:
		return bounded(cost + 1 + int64(s.r[i]>>8%uint64(l.Quota)))
	case 4:
		return cost
	default:
		return int64(s.r[i] >> 8 % uint64(cost+1))
	}
}

// drawUsedEach draws what was used of some of the limits.
func drawUsedEach(s *step, parts []model.Part) (used []slidegate.Used) {
	for j := range parts {
		part := &parts[j]
		part.Used = part.Cost
		if s.pick(3+j, 3) > 0 {
			part.Used = drawUsed(s, 4+j%4, part.Cost, part.Limit)
			used = append(used, slidegate.Used{Limit: part.Limit.Name, Key: part.Key, Cost: part.Used})
		}
	}
	return used
}

func (p *player) countSettlement(h *held, got slidegate.Settlement) {
	switch least := slices.Min(got.Returned); {
	case got.Repeated:
		p.events["repeated"]++
	case h.settled > 1:
		p.events["settled late"]++
	case least < 0:
		p.events["charged more"]++
	case slices.Max(got.Returned) > 0:
		p.events["gave back"]++
	}
}

// renew renews the slots of a reservation.
func (p *player) renew(s *step) error {
	if len(p.reservations) == 0 {
		return nil
	}
	i := p.choose(s, func(h *held) bool {
		return h.settled == 0 && slices.ContainsFunc(h.parts, func(part model.Part) bool { return part.Limit.Slot() })
	})
	h := p.reservations[i]
	slots := slices.DeleteFunc(slices.Clone(h.parts), func(part model.Part) bool { return !part.Limit.Slot() })
	if len(slots) == 0 {
		return nil
	}
	p.decisions++
	got, err := p.base.Renew(p.ctx, h.Reservation)
	p.note("renew r%d: %v", i, got)
	if err != nil {
		return fmt.Errorf("renew r%d: %w", i, err)
	}
	all := true
	for _, want := range p.world.Decide(model.Renew, h.group, h.ID, slots) {
		all = all && want.Allowed
	}
	p.events[map[bool]string{true: "renewed", false: "slot lost"}[all]]++
	if got.Allowed != all {
		return fmt.Errorf("renew r%d: got held %v, want %v", i, got.Allowed, all)
	}
	return nil
}
