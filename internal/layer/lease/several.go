package lease

import (
	"context"
	"time"

	"github.com/slidegate/slidegate/internal/answering"
	"github.com/slidegate/slidegate/rule"
	"github.com/slidegate/slidegate/store"
)

// spending is what a request has spent from one address before it is known whether the request is admitted.
type spending struct {
	e         *holding
	cost      int64
	lease     *lease
	left, now int64
}

// takeTogether answers a request whose addresses all have enough at hand, or one of which is known to refuse. It spends
// from all or from none, unless some have no holding: then it may have spent from some of the others, and the store has
// to decide the rest.
func (s *Store) takeTogether(ctx context.Context, j *job, r *store.Request) (answered, some bool) {
	if r.Op != rule.Take && r.Op != rule.TakeUpTo || len(r.Answers) < len(r.Charges) {
		return false, false
	}
	switch held := s.findAll(j, r); {
	case held == 0:
		return false, false
	case held < len(r.Charges):
		return false, r.Op == rule.Take && sameMode(r.Charges) && s.spendSome(ctx, j, r)
	}
	if r.Op == rule.TakeUpTo { // which grants the same to all
		least := r.Charges[0].Cost
		for k := range r.Charges {
			least = min(least, r.Charges[k].Cost)
		}
		j.grant(least)
	}
	for range maxWaits + 1 {
		short := s.spendAll(j, r)
		if short < 0 {
			j.fillAnswers(r)
			return true, false
		}
		if r.Op != rule.Take {
			return false, false
		}
		if s.refuseAll(j, r) {
			return true, false
		}
		p, c := &j.spends[short], &r.Charges[short]
		var ok bool
		if p.lease, p.now, ok = s.await(ctx, p.e, c.Limit, c.Cost); !ok {
			return false, false // if ctx has ended, the store returns the error
		}
		if p.lease != nil {
			p.left, _ = p.lease.left()
		}
	}
	s.undoAll(j, r)
	return false, false
}

// findAll finds the holdings of all charges, and returns how many have one. It returns 0 if the store has to reject one
// of them.
func (s *Store) findAll(j *job, r *store.Request) (held int) {
	clear(j.spends)
	j.spends = j.spends[:0]
	for k := range r.Charges {
		c := &r.Charges[k]
		if c.Cost < 1 || c.Cost > c.Limit.Rule().Capacity() {
			return 0
		}
		var e *holding
		if c.Limit.Rule().Lease {
			h := c.Limit.Hash(r.Group, c.Key)
			if e = s.table.find(h, c.Limit, r.Group, c.Key); e == nil {
				e = s.hold(h, c.Limit, r.Group, c.Key, c.Cost)
			}
		}
		if e != nil {
			held++
		}
		j.spends = append(j.spends, spending{e: e, cost: c.Cost})
	}
	return held
}

// spendAll spends the cost of all charges, or nothing, and then returns the index of a charge that has too little.
// Charges that were paid while waiting are already spent.
func (s *Store) spendAll(j *job, r *store.Request) (short int) {
	for k := range r.Charges {
		c, p := &r.Charges[k], &j.spends[k]
		if p.lease != nil {
			continue
		}
		var ok bool
		if p.lease, p.left, p.now, ok = s.spend(p.e, c.Limit, p.cost); !ok {
			s.undoAll(j, r)
			return k
		}
	}
	return -1
}

// fillAnswers sets the answer of each charge to what was spent.
func (j *job) fillAnswers(r *store.Request) {
	for k := range r.Charges {
		p := &j.spends[k]
		r.Answers[k] = p.lease.answer(p.cost, p.left, p.now)
	}
	r.Err = nil
}

// takeAtHand grants what is at hand to a TakeUpTo request, where the store has nothing left.
func (s *Store) takeAtHand(j *job, r *store.Request) {
	if r.Op != rule.TakeUpTo || r.Err != nil {
		return
	}
	if _, allowed := answering.Deciding(r.Answers); allowed {
		return
	}
	clear(j.spends)
	j.spends = j.spends[:0]
	now := s.clock.read()
	grant := r.Charges[0].Cost
	for k := range r.Charges {
		c := &r.Charges[k]
		e := s.lookUp(r.Group, c)
		if e == nil {
			return
		}
		grant = min(grant, c.Cost, e.unitsAtHand(c.Limit, now))
		j.spends = append(j.spends, spending{e: e})
	}
	j.grant(grant)
	if grant > 0 && s.spendAll(j, r) < 0 {
		j.fillAnswers(r)
	}
}

// grant sets what is to be spent of every address.
func (j *job) grant(units int64) {
	for k := range j.spends {
		j.spends[k].cost = units
	}
}

// undoAll puts back what was spent for a request that is not admitted.
func (s *Store) undoAll(j *job, r *store.Request) {
	for k := range j.spends {
		if p := &j.spends[k]; p.lease != nil {
			s.undo(p, &r.Charges[k])
			p.lease = nil
		}
	}
}

// undo puts back what was spent.
func (s *Store) undo(p *spending, c *store.Charge) {
	if s.opts.Spent != nil {
		s.opts.Spent(Spend{c.Limit, p.e.group, p.e.key, -p.cost, p.lease.at, time.Duration(p.lease.end), time.Duration(p.now)})
	}
	s.putBack(p.e, p.lease, p.cost)
}

// putBack puts units that were spent back into a lease. If the lease was closed in the meantime, they are returned to
// the store.
func (s *Store) putBack(e *holding, l *lease, units int64) {
	if l.unspend(units) {
		return
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	e.closed.units -= units
	e.closed.spends--
	s.giveBack(e, l, units)
}

// refuseAll answers a request of which the store has just refused one charge. The other charges get what is at hand.
func (s *Store) refuseAll(j *job, r *store.Request) bool {
	refused := false
	now := s.clock.read()
	for k := range r.Charges {
		c, e, a := &r.Charges[k], j.spends[k].e, &r.Answers[k]
		var ok bool
		if *a, ok = e.refuse(c.Limit, c.Cost, now); ok {
			refused = true
			continue
		}
		*a = rule.Answer{Flags: rule.Leased}
		e.addTo(a, c, now)
		if l := e.current.Load(); l != nil {
			a.ResetAfter, a.At = micros(l.reset-now), l.at
		}
		if !a.Allowed { // unknown
			return false
		}
	}
	if refused {
		r.Err = nil
	}
	return refused
}
