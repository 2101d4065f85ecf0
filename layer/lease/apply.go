package lease

import (
	"context"
	"fmt"

	"github.com/slidegate/slidegate/rule"
	"github.com/slidegate/slidegate/store"
)

// job is the memory of a call, which is used again.
type job struct {
	requests []store.Request // those of a batch that go to the store
	places   []int           // which ones they are
	spends   []spending      // of a request with several charges
	parts    []partly        // requests of which the store is asked for some charges only
	kept     []spending      // what was spent for those
	charges  []store.Charge  // what the store is asked for of them
	answers  []rule.Answer
}

// put gives a job's memory back, without anything of the caller's in it.
func (s *Store) put(j *job) {
	clear(j.requests)
	clear(j.spends)
	clear(j.kept)
	clear(j.charges)
	j.requests, j.places, j.spends = j.requests[:0], j.places[:0], j.spends[:0]
	j.parts, j.kept, j.charges, j.answers = j.parts[:0], j.kept[:0], j.charges[:0], j.answers[:0]
	s.work.Put(j)
}

// Apply answers takes from blocks where it can, and asks the store underneath for the rest, all at once.
func (s *Store) Apply(ctx context.Context, batch []store.Request) error {
	resets, leased := s.survey(batch)
	switch {
	case leased == 0:
		return s.inner.Apply(ctx, batch)
	case resets > 0: // what comes before and after it in the batch is left to the store, in its order
		return s.applyResets(ctx, batch)
	}
	if err := ctx.Err(); err != nil {
		err = fmt.Errorf("lease: not asked for: %w", err)
		for i := range batch {
			batch[i].Err = err
		}
		return err
	}
	j := s.work.Get().(*job)
	defer s.put(j)
	for i := range batch {
		if answered, some := s.takeTogether(ctx, j, &batch[i]); !answered {
			j.send(&batch[i], i, some)
		}
	}
	var err error
	if len(j.requests) > 0 {
		sent := s.clock.read()
		_ = s.inner.Apply(ctx, j.requests)
		for _, p := range j.parts {
			s.join(j, p, &batch[j.places[p.request]])
		}
		for k, i := range j.places {
			batch[i].Err = j.requests[k].Err
			s.hear(&batch[i], sent)
			s.takeAtHand(j, &batch[i])
		}
	}
	for i := range batch {
		if err = batch[i].Err; err != nil {
			break
		}
	}
	return err
}

// survey counts the requests of a batch that reset leased limits, and those that have to do with them at all.
func (s *Store) survey(batch []store.Request) (resets, leased int) {
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

// applyResets drops the blocks of what is reset, which are not given back: the store forgets what was charged for them.
func (s *Store) applyResets(ctx context.Context, batch []store.Request) error {
	var dropped []*holding
	defer func() {
		for _, e := range dropped {
			e.mu.Lock()
			e.resets--
			e.denied.Store(nil)
			if !e.begun { // it is only there for the reset
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
	for _, e := range dropped { // what is under way would be charged, or given back, after the reset
		for landed := e.underWay(); landed != nil; landed = e.underWay() {
			select {
			case <-landed:
				continue
			case <-ctx.Done():
			}
			break
		}
	}
	err := s.inner.Apply(ctx, batch)
	for i := range batch {
		s.hear(&batch[i], 0)
	}
	return err
}

// holdForReset returns the holding of a charge that is to be reset. It makes one if there is none, so that nobody else takes a
// block meanwhile: that might be charged before the reset and spent after it. It is nil where there will be no blocks.
func (s *Store) holdForReset(group string, c *store.Charge) *holding {
	if e := s.lookUp(group, c); e != nil || !c.Limit.Rule().Lease || s.closed.Load() {
		return e
	}
	e, first := s.table.add(s.hash(c.Limit, group, c.Key), c.Limit, group, c.Key, s.opts.MaxKeys)
	if first {
		go s.keep()
	}
	return e
}

// underWay returns what is closed when a trip of the holding is over, or nil if there is none.
func (e *holding) underWay() chan struct{} {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.trips == 0 {
		return nil
	}
	if e.landed == nil {
		e.landed = make(chan struct{})
	}
	return e.landed
}

// lookUp returns the holding of a charge, or nil.
func (s *Store) lookUp(group string, c *store.Charge) *holding {
	return s.table.find(s.hash(c.Limit, group, c.Key), c.Limit, group, c.Key)
}

// hear takes note of what the store answered to a request that was sent then, and adds to a peek what is at hand here.
func (s *Store) hear(r *store.Request, sent int64) {
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
			e.denied.Store(nil)
		case rule.Take:
			if !a.Allowed && a.Flags == 0 {
				e.denied.Store(newRefusal(c.Limit, c.Cost, a, sent, s.clock.read()))
			}
		case rule.Peek:
			e.addTo(a, c, s.clock.read())
		}
	}
}

// atHand returns how many units can be spent at once under a limit.
func (e *holding) atHand(limit *store.Limit, now int64) (units int64) {
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, b := range [...]*block{e.now.Load(), e.after} {
		if b != nil && now < b.end && same(b.limit, limit) {
			left, _ := b.left()
			units += left
		}
	}
	return units
}

// addTo adds what is at hand to the answer to a peek.
func (e *holding) addTo(a *rule.Answer, c *store.Charge, now int64) {
	left := e.atHand(c.Limit, now)
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
