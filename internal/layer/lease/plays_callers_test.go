package lease_test

import (
	"context"
	"time"

	"github.com/slidegate/slidegate/internal/answering"
	"github.com/slidegate/slidegate/internal/leases"
	"github.com/slidegate/slidegate/internal/testkit"
	"github.com/slidegate/slidegate/rule"
	"github.com/slidegate/slidegate/store"
)

// The size of a play: it ends after that many requests, or after that time.
const (
	maxRequests = 3000
	maxPlayTime = time.Minute
)

// caller sends one request after the other.
type caller struct {
	p        *process
	w        *world
	reserved []store.Request // to be settled
}

// call runs a caller: it does one thing for a while, then another.
func (p *process) call() {
	c := caller{p: p, w: p.w}
	r := c.w.rand
	for !c.done() {
		switch r.IntN(8) {
		case 0, 1: // as fast as it can
			for range r.IntN(60) {
				c.takeOne(1 + r.Int64N(3))
				c.pause(100 * time.Microsecond)
			}
		case 2, 3: // often enough for a lease, which then lasts
			for range r.IntN(30) {
				c.takeOne(1)
				c.pause(8 * time.Millisecond)
			}
		case 4: // around the end of a part
			c.pauseUntilEnd()
			for range r.IntN(10) {
				c.takeOne(1)
				c.pause(time.Microsecond)
			}
		case 5: // whatever is left
			c.drain()
		case 6:
			for range r.IntN(20) {
				c.sendAny()
				c.pause(2 * time.Millisecond)
			}
		default:
			c.pause(pick[time.Duration](r, 20, 90, 400) * time.Millisecond)
		}
		c.settle()
		c.disturb()
	}
}

func (c *caller) done() bool {
	if c.w.requests.Add(1) > maxRequests || time.Since(c.w.began) > maxPlayTime {
		c.w.over.Store(true)
	}
	return c.w.over.Load() || c.p.dead.Load()
}

func (c *caller) pause(most time.Duration) {
	testkit.Delay(time.Duration(c.w.rand.Int64N(int64(most))))
}

// pauseUntilEnd waits until the end of a part is near.
func (c *caller) pauseUntilEnd() {
	r := c.limit().Rule()
	if !hasParts(r) {
		return
	}
	now := c.w.storeNow()
	_, end := leases.Part(r, now)
	early := time.Duration(c.w.rand.Int64N(pick(c.w.rand, int64(time.Microsecond), int64(time.Millisecond), int64(30*time.Millisecond))))
	if left := (end - now).Duration() - early; left > 0 && left < 3*time.Second {
		testkit.Delay(left)
	}
}

// limit returns one of the limits, in the value that the process uses.
func (c *caller) limit() *store.Limit {
	values := c.w.limits[c.w.rand.IntN(len(c.w.limits))].values
	return values[int(c.p.value.Load())%len(values)]
}

// key returns a busy key, or another one.
func (c *caller) key() string {
	if c.w.chance(150) {
		return "seldom"
	}
	return "often"
}

// context returns a caller's context, which ends after a while.
func (c *caller) context() (context.Context, context.CancelFunc) {
	ctx := context.WithValue(context.Background(), asCaller{}, true)
	if c.w.chance(100) {
		return context.WithTimeout(ctx, time.Duration(c.w.rand.Int64N(int64(100*time.Millisecond))))
	}
	return ctx, func() {}
}

// takeOne takes from a single limit.
func (c *caller) takeOne(cost int64) {
	if c.done() {
		return
	}
	limit := c.limit()
	ctx, cancel := c.context()
	defer cancel()
	allowed, _, _, after, _, _, err := c.p.lease.TakeSingle(ctx, limit, c.key(), min(cost, limit.Rule().Capacity()))
	if err == nil && !allowed {
		c.refused(after)
	}
}

// refused waits for a while, as callers do, or until the retry time.
func (c *caller) refused(after rule.Micros) {
	switch {
	case c.w.chance(300) && after < rule.Micros(2_000_000):
		testkit.Delay(after.Duration())
	case c.w.chance(700):
		c.pause(50 * time.Millisecond)
	}
}

// request returns a request over one address or several.
func (c *caller) request(op rule.Op, cost int64) store.Request {
	r := store.Request{Op: op, ID: rule.ID(c.w.ids.Add(1))}
	if c.w.chance(200) {
		r.Group = "group"
	}
	for range 1 + c.w.rand.IntN(3) {
		charge := store.Charge{Limit: c.limit(), Key: c.key()}
		charge.Cost = min(cost, charge.Limit.Rule().Capacity())
		known := false
		for _, other := range r.Charges {
			known = known || other.Key == charge.Key && other.Limit.Prefix() == charge.Limit.Prefix()
		}
		if !known {
			r.Charges = append(r.Charges, charge)
		}
	}
	r.Answers = make([]rule.Answer, len(r.Charges))
	return r
}

// sendAny sends one request or several together.
func (c *caller) sendAny() {
	if c.done() {
		return
	}
	r := c.w.rand
	batch := make([]store.Request, 0, 3)
	for range 1 + r.IntN(2)*r.IntN(3) {
		op := pick(r, rule.Take, rule.Take, rule.Take, rule.TakeUpTo, rule.Peek)
		batch = append(batch, c.request(op, 1+r.Int64N(pick(r, int64(1), 4, 40))))
	}
	ctx, cancel := c.context()
	defer cancel()
	c.p.lease.Apply(ctx, batch)
	for i := range batch {
		_, admitted := answering.Deciding(batch[i].Answers)
		if batch[i].Err == nil && admitted && len(batch[i].Charges) > 1 {
			c.w.countEvent("requests were admitted by several limits")
		}
		if batch[i].Err == nil && admitted && batch[i].Op == rule.Take && c.w.chance(400) {
			c.reserved = append(c.reserved, batch[i])
		}
	}
}

// drain takes all units of an address.
func (c *caller) drain() {
	limit := c.limit()
	request := store.Request{
		Op: rule.TakeUpTo, Answers: make([]rule.Answer, 1),
		Charges: []store.Charge{{Limit: limit, Key: c.key(), Cost: limit.Rule().Capacity()}},
	}
	ctx, cancel := c.context()
	defer cancel()
	c.p.lease.Apply(ctx, []store.Request{request})
}

// settle settles some reservations for what was used.
func (c *caller) settle() {
	r := c.w.rand
	for len(c.reserved) > 0 && c.w.chance(700) {
		i := r.IntN(len(c.reserved))
		request := c.reserved[i]
		c.reserved[i] = c.reserved[len(c.reserved)-1]
		c.reserved = c.reserved[:len(c.reserved)-1]
		request.Op = rule.Settle
		for k := range request.Charges {
			charge := &request.Charges[k]
			charge.At = request.Answers[k].At
			charge.Used = r.Int64N(charge.Cost + 1)
			if c.w.disturbance == forced && c.w.chance(300) {
				charge.Used += 1 + r.Int64N(charge.Limit.Rule().Capacity())
			}
		}
		ctx, cancel := c.context()
		if c.p.lease.Apply(ctx, []store.Request{request}) != nil && c.w.chance(500) { // the outcome is unknown, so it is sent again
			c.p.lease.Apply(context.WithoutCancel(ctx), []store.Request{request})
		}
		cancel()
	}
}

// disturb does what is beyond the promises of leases, where the play includes it, and ends processes.
func (c *caller) disturb() {
	if c.w.chance(c.w.faults.dies) {
		c.p.die()
		return
	}
	if !c.w.chance(200) {
		return
	}
	r := c.w.rand
	var request store.Request
	switch c.w.disturbance {
	case plans:
		c.p.value.Store(r.Int64N(8))
		c.w.countEvent("quotas changed")
		return
	case forced:
		request = c.request(rule.Charge, 1+r.Int64N(100))
	case resets:
		request = c.request(rule.Reset, 0)
	case refunds:
		request = c.request(rule.GiveBack, 1+r.Int64N(20))
	default:
		return
	}
	ctx, cancel := c.context()
	defer cancel()
	c.p.lease.Apply(ctx, []store.Request{request})
}

// die loses everything that a process has.
func (p *process) die() {
	p.w.mu.Lock()
	defer p.w.mu.Unlock()
	p.dead.Store(true)
	p.w.died(p)
}
