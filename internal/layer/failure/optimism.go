package failure

import (
	"slices"
	"sync"
	"time"

	"github.com/slidegate/slidegate/internal/answering"
	"github.com/slidegate/slidegate/rule"
	"github.com/slidegate/slidegate/store"
)

// optimism implements the mode FailOptimistic: it records what was admitted and not yet acknowledged by the store, and
// decides what else may be admitted.
//
// No window holds more than the quota plus k per process, for this reason. Of all answers of the store after which any
// process admitted something, take the last one, at time c. It left units, or the process that admitted waited until
// everything that the store knew at c left units. So what the store knew at c is at most the quota in any window that ends
// after it: units are charged later than they were admitted, and leave the store's window later. What it did not know at c
// is what each process admitted itself. If the store had acknowledged any of that by the time of the process's last
// admission, there would have been an answer after c. So all of it still counted then: at most k. Units that were forgotten
// because of their age are in no such window.
type optimism struct {
	k int64

	mu      sync.Mutex
	ledger  ledger
	calls   uint64
	charged int64         // units that the store has acknowledged
	timer   *time.Timer   // of the next attempt to charge; nil if nothing was owed yet
	running chan struct{} // closed when the attempt in progress has ended; nil if there is none
	closed  bool
}

func newOptimism(k int64, maxPending int) *optimism {
	return &optimism{k: k, ledger: ledger{accounts: map[address]*account{}, maxEntries: maxPending}}
}

// admissible returns how many more units of a charge's address may be admitted, and for how long that is reduced because the
// store was exhausted. The caller holds the lock.
func (o *optimism) admissible(group string, c *store.Charge, now rule.Micros) (units int64, rest rule.Micros) {
	at := addressOf(group, c)
	a := o.ledger.find(at, now)
	units = min(o.k, c.Limit.Rule().Capacity()) - a.unacknowledged()
	if a != nil && now < a.rest {
		return 0, a.rest - now
	}
	return max(0, units), 0
}

// decide answers a take or a peek, and records what it admits. probe is the time until the store is called again.
func (o *optimism) decide(r *store.Request, now, probe rule.Micros) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if r.Once && o.repeats(r, now) {
		return
	}
	full := r.Op != rule.Peek && (o.closed || !o.ledger.fits(len(r.Charges), now))
	grant, all := int64(rule.MaxQuota), true
	for i := range r.Charges {
		c, a := &r.Charges[i], &r.Answers[i]
		*a = rule.Answer{Flags: rule.FallbackOptimistic, At: now}
		a.Remaining, a.RetryAfter = o.admissible(r.Group, c, now)
		if full {
			a.Remaining = 0
		}
		grant = min(grant, c.Cost, max(1, a.Remaining))
	}
	for i := range r.Charges {
		c, a := &r.Charges[i], &r.Answers[i]
		cost := c.Cost
		if r.Op == rule.TakeUpTo {
			cost = grant
		}
		a.Allowed = cost <= a.Remaining && !full || o.holds(r, c)
		all = all && a.Allowed
		switch {
		case a.Allowed:
			a.RetryAfter = 0
		case !isPossible(r.Op, c):
			a.RetryAfter = rule.Never
		case a.RetryAfter == 0:
			a.RetryAfter = probe
		}
	}
	if !all || r.Op == rule.Peek {
		return
	}
	for i := range r.Charges {
		c, a := &r.Charges[i], &r.Answers[i]
		if a.Granted = c.Cost; r.Op == rule.TakeUpTo {
			a.Granted = grant
		}
		a.At = o.admit(r, c, a.Granted, now, owed)
		if a.Remaining = max(0, a.Remaining-a.Granted); a.Remaining == 0 {
			a.NextAfter = probe
		}
	}
}

// repeats answers a call that was admitted here before, and reports whether it was. The caller holds the lock.
func (o *optimism) repeats(r *store.Request, now rule.Micros) bool {
	grains := make([]*grain, len(r.Charges))
	known := false
	for i := range r.Charges {
		if a := o.ledger.find(addressOf(r.Group, &r.Charges[i]), now); a != nil {
			k := slices.IndexFunc(a.grains, func(g grain) bool { return g.id == r.ID })
			if k >= 0 {
				grains[i], known = &a.grains[k], true
			}
		}
	}
	if !known {
		return false
	}
	for i, g := range grains {
		if o.answer(r, i, 0, now, now); g != nil {
			r.Answers[i].Granted, r.Answers[i].At = g.took, g.at
		}
		r.Answers[i].Flags |= rule.Repeated
	}
	return true
}

// isHeld reports whether a request holds the units of a charge.
func isHeld(r *store.Request, c *store.Charge) bool {
	return r.Hold && c.Limit.Rule().Hold > 0 && r.ID != 0
}

// holds reports whether a charge is for a slot, or for units, that its reservation already holds. The caller holds the lock.
func (o *optimism) holds(r *store.Request, c *store.Charge) bool {
	if c.Limit.Rule().Algorithm != rule.InFlight && !isHeld(r, c) || r.ID == 0 {
		return false
	}
	g := o.ledger.accounts[addressOf(r.Group, c)].findGrain(0, r.ID)
	return g != nil && (g.standing == slot || g.standing == held)
}

// admit records units that are admitted now, and returns the time to pass when they are refunded. The caller holds the lock.
func (o *optimism) admit(r *store.Request, c *store.Charge, units int64, now rule.Micros, as standing) rule.Micros {
	if units == 0 {
		return now
	}
	a, limit, life := o.ledger.open(addressOf(r.Group, c), c.Limit), c.Limit.Rule(), rule.Micros(0)
	switch {
	case limit.Algorithm == rule.InFlight:
		as = slot
	case isHeld(r, c):
		as, life = held, limit.Hold
	case r.Once:
		life = limit.Memory()
	}
	if mine := a.findGrain(0, r.ID); mine != nil && r.ID != 0 && mine.standing == as && (as == slot || as == held) {
		mine.last = now // it is held already
		return mine.at
	}
	return o.ledger.add(a, grain{at: now, last: now, units: units, took: units, life: life, id: r.ID, standing: as})
}

// force records units that have been used, whatever the limit. It returns false if there is no memory for them.
func (o *optimism) force(r *store.Request, now rule.Micros, as standing) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.closed || !o.ledger.fits(len(r.Charges), now) {
		return false
	}
	for i := range r.Charges {
		c := &r.Charges[i]
		at := o.admit(r, c, c.Cost, now, as)
		o.answer(r, i, c.Cost, at, now)
	}
	return true
}

// answer sets the answer of a charge that was carried out with units. The caller holds the lock.
func (o *optimism) answer(r *store.Request, i int, units int64, at, now rule.Micros) {
	remaining, _ := o.admissible(r.Group, &r.Charges[i], now)
	r.Answers[i] = rule.Answer{Allowed: true, Flags: rule.FallbackOptimistic, Granted: units, Remaining: remaining, At: at}
}

// giveBackOldest refunds units that were not sent to the store, oldest first.
func (o *optimism) giveBackOldest(r *store.Request, now rule.Micros) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for i := range r.Charges {
		c := &r.Charges[i]
		var back int64
		if a := o.ledger.find(addressOf(r.Group, c), now); a != nil {
			for k := range a.grains {
				if g := &a.grains[k]; g.standing == owed || g.standing == slot {
					n := min(c.Cost-back, g.units)
					g.units -= n
					back += n
				}
			}
			o.ledger.drop(a, func(g *grain) bool { return g.units == 0 && !g.settled })
		}
		o.answer(r, i, back, now, now)
	}
}

// finish refunds, settles or renews what was admitted without the store.
func (o *optimism) finish(r *store.Request, now rule.Micros) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for i := range r.Charges {
		c := &r.Charges[i]
		a := o.ledger.find(addressOf(r.Group, c), now)
		taken, _ := answering.Unmark(c.At)
		g := a.findGrain(taken, r.ID)
		switch {
		case r.Op == rule.Settle:
			o.settle(r, i, a, g, now)
		case r.Op == rule.Renew:
			renewed := g != nil && (g.standing == slot || g.standing == held)
			if renewed {
				g.last = now
			}
			o.answer(r, i, 0, now, now)
			if holds := c.Limit.Rule().Algorithm == rule.InFlight || c.Limit.Rule().Hold > 0; holds && !renewed {
				r.Answers[i].Allowed, r.Answers[i].RetryAfter = false, rule.Never
			}
		case g != nil:
			o.answer(r, i, o.ledger.take(a, g, c.Cost), now, now)
		default:
			o.answer(r, i, 0, now, now)
		}
	}
}

// settle replaces the cost of a reservation by what was used, once. Units that the store may have charged are not
// returned; usage beyond the cost is owed to the store.
func (o *optimism) settle(r *store.Request, i int, a *account, g *grain, now rule.Micros) {
	c := &r.Charges[i]
	if c.Limit.Rule().Algorithm == rule.InFlight {
		var back int64
		if g != nil {
			back = o.ledger.take(a, g, g.units)
		}
		o.answer(r, i, back, now, now)
		return
	}
	if g != nil && g.settled {
		o.answer(r, i, g.back, now, now)
		r.Answers[i].Flags |= rule.Repeated
		return
	}
	if c.Limit.Rule().Hold > 0 {
		o.settleHeld(r, i, a, g, now)
		return
	}
	back := c.Cost - c.Used
	if g == nil { // too old, reset, or evicted: only record that it was settled
		a = o.ledger.open(addressOf(r.Group, c), c.Limit)
		taken, _ := answering.Unmark(c.At)
		o.ledger.add(a, grain{at: taken, last: now, id: r.ID, standing: charged})
		g = &a.grains[len(a.grains)-1]
	}
	switch {
	case g.standing == owed:
		back = min(back, g.units)
		g.units -= back
	case back > 0:
		back = 0
	case back < 0:
		name, id := g.at, g.id
		o.ledger.add(a, grain{at: now, last: now, units: -back, standing: owed})
		g = a.findGrain(name, id) // it may have moved
	}
	g.settled, g.back = true, back
	if g.units == 0 && g.standing == owed {
		o.ledger.setStanding(g, charged) // kept so that it is settled only once
	}
	o.answer(r, i, back, now, now)
}

// settleHeld ends a hold, unless that was lost, and records that what was used is owed to the store from now on.
func (o *optimism) settleHeld(r *store.Request, i int, a *account, g *grain, now rule.Micros) {
	c := &r.Charges[i]
	if g == nil {
		a = o.ledger.open(addressOf(r.Group, c), c.Limit)
		taken, _ := answering.Unmark(c.At)
		o.ledger.add(a, grain{at: taken, id: r.ID, standing: charged})
		g = &a.grains[len(a.grains)-1]
	}
	back := g.units - c.Used
	o.ledger.setStanding(g, charged) // kept so that it is settled only once
	g.units, g.settled, g.back, g.last, g.life = 0, true, back, now, c.Limit.Rule().Memory()
	if c.Used > 0 {
		o.ledger.add(a, grain{at: now, last: now, units: c.Used, standing: owed})
	}
	o.answer(r, i, back, now, now)
}

// reset forgets the keys of a request that the store has reset.
func (o *optimism) reset(r *store.Request) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for i := range r.Charges {
		o.ledger.remove(addressOf(r.Group, &r.Charges[i]))
	}
}

// stats adds the counts of this mode to to.
func (o *optimism) stats(to *Stats) {
	o.mu.Lock()
	defer o.mu.Unlock()
	to.Charged = o.charged
	for _, a := range o.ledger.accounts {
		for i := range a.grains {
			switch g := &a.grains[i]; g.standing {
			case owed:
				to.Owed += g.units
			case sent:
				to.Unknown += g.units
			}
		}
	}
}
