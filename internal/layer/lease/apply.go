package lease

import (
	"context"
	"fmt"

	"github.com/slidegate/slidegate/internal/batches"
	"github.com/slidegate/slidegate/rule"
	"github.com/slidegate/slidegate/store"
)

// job is the reusable memory of a call.
type job struct {
	requests []store.Request // the requests of a batch that go to the store
	indexes  []int           // their indexes in the batch
	spends   []spending      // of a request with several charges
	parts    []partial       // requests of which only some charges go to the store
	kept     []spending      // what was spent for those
	charges  []store.Charge  // the charges of those that go to the store
	answers  []rule.Answer
}

// put recycles a job, cleared of the caller's data.
func (s *Store) put(j *job) {
	clear(j.requests)
	clear(j.spends)
	clear(j.kept)
	clear(j.charges)
	j.requests, j.indexes, j.spends = j.requests[:0], j.indexes[:0], j.spends[:0]
	j.parts, j.kept, j.charges, j.answers = j.parts[:0], j.kept[:0], j.charges[:0], j.answers[:0]
	s.work.Put(j)
}

// Apply answers takes from leases where it can, and passes the rest to the inner store in one call.
func (s *Store) Apply(ctx context.Context, batch []store.Request) error {
	resets, leased := s.countLeased(batch)
	switch {
	case leased == 0:
		return s.inner.Apply(ctx, batch)
	case resets > 0: // everything in the batch goes to the store, in order
		return s.applyResets(ctx, batch)
	}
	if err := ctx.Err(); err != nil {
		return batches.FailAll(batch, fmt.Errorf("lease: not sent: %w", err))
	}
	j := s.work.Get().(*job)
	defer s.put(j)
	for i := range batch {
		answered, some := false, false
		if !batch[i].Once { // which only the store can remember
			answered, some = s.takeTogether(ctx, j, &batch[i])
		}
		if !answered {
			j.send(&batch[i], i, some)
		}
	}
	if len(j.requests) > 0 {
		sent := s.clock.read()
		_ = s.inner.Apply(ctx, j.requests)
		for _, p := range j.parts {
			s.join(j, p, &batch[j.indexes[p.request]])
		}
		for k, i := range j.indexes {
			batch[i].Err = j.requests[k].Err
			s.record(&batch[i], sent)
			s.takeAtHand(j, &batch[i])
		}
	}
	return batches.FirstError(batch)
}

// countLeased counts the requests of a batch that reset leased limits, and those that concern leased limits at all.
func (s *Store) countLeased(batch []store.Request) (resets, leased int) {
	for i := range batch {
		for k := range batch[i].Charges {
			if batch[i].Charges[k].Limit.Rule().Lease {
				leased++
				if batch[i].Op == rule.Reset {
					resets++
				}
				break
			}
		}
	}
	return resets, leased
}

// applyResets drops the leases of keys that are reset. They are not returned: the store forgets what was charged for
// them.
func (s *Store) applyResets(ctx context.Context, batch []store.Request) error {
	var dropped []*holding
	defer func() {
		for _, e := range dropped {
			e.mu.Lock()
			e.resets--
			e.refused.Store(nil)
			if !e.begun { // it exists only for the reset
				e.idle = goneRounds
			}
			e.mu.Unlock()
		}
	}()
	for i := range batch {
		if batch[i].Op != rule.Reset {
			continue
		}
		for k := range batch[i].Charges {
			c := &batch[i].Charges[k]
			e := s.holdForReset(batch[i].Group, c)
			if e == nil {
				continue
			}
			e.mu.Lock()
			e.resets++
			s.drop(e)
			e.remains = c.Limit.Rule().Capacity()
			e.mu.Unlock()
			dropped = append(dropped, e)
		}
	}
	for _, e := range dropped { // transfers under way would be charged, or returned, after the reset
		for done := e.underWay(); done != nil; done = e.underWay() {
			select {
			case <-done:
				continue
			case <-ctx.Done():
			}
			break
		}
	}
	err := s.inner.Apply(ctx, batch)
	for i := range batch {
		s.record(&batch[i], 0)
	}
	return err
}

// holdForReset returns the holding of a charge that is to be reset. It creates one if there is none, so that no lease
// is taken in the meantime, which might be charged before the reset and spent after it. It returns nil where there will
// be no leases.
func (s *Store) holdForReset(group string, c *store.Charge) *holding {
	if e := s.lookUp(group, c); e != nil || !c.Limit.Rule().Lease || s.closed.Load() {
		return e
	}
	e, first := s.table.add(c.Limit.Hash(group, c.Key), c.Limit, group, c.Key, s.opts.MaxKeys)
	if first {
		s.startKeeper()
	}
	return e
}

// underWay returns a channel that is closed when the holding's transfers are done, or nil if there are none.
func (e *holding) underWay() chan struct{} {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.transfers == 0 {
		return nil
	}
	if e.done == nil {
		e.done = make(chan struct{})
	}
	return e.done
}

// lookUp returns the holding of a charge, or nil.
func (s *Store) lookUp(group string, c *store.Charge) *holding {
	return s.table.find(c.Limit.Hash(group, c.Key), c.Limit, group, c.Key)
}

// record records the store's answer to a request that was sent at the given time, and adds what is at hand here to a
// peek.
func (s *Store) record(r *store.Request, sent int64) {
	if r.Err != nil {
		return
	}
	for k := range r.Charges {
		c := &r.Charges[k]
		if !c.Limit.Rule().Lease {
			continue
		}
		e := s.lookUp(r.Group, c)
		if e == nil {
			continue
		}
		a := &r.Answers[k]
		switch r.Op {
		case rule.GiveBack, rule.Settle, rule.Reset:
			e.refused.Store(nil)
		case rule.Take:
			if !a.Allowed && a.Flags == 0 {
				e.refused.Store(newRefusal(c.Limit, c.Cost, a, sent, s.clock.read()))
			}
		case rule.Peek:
			e.addTo(a, c, s.clock.read())
		}
	}
}

// unitsAtHand returns how many units can be spent immediately under a limit.
func (e *holding) unitsAtHand(limit *store.Limit, now int64) (units int64) {
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, l := range [...]*lease{e.current.Load(), e.next} {
		if l != nil && now < l.end && sameRule(l.limit, limit) {
			left, _ := l.left()
			units += left
		}
	}
	return units
}

// addTo adds what is at hand to the answer to a peek.
func (e *holding) addTo(a *rule.Answer, c *store.Charge, now int64) {
	left := e.unitsAtHand(c.Limit, now)
	if left == 0 {
		return
	}
	a.Flags |= rule.Leased
	a.Remaining += left
	if !a.Allowed && c.Cost <= a.Remaining {
		a.Allowed, a.RetryAfter = true, 0
	}
	if a.Remaining > 0 {
		a.NextAfter = 0
	}
}
