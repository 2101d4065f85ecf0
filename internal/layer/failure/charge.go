package failure

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/slidegate/slidegate/internal/answering"
	"github.com/slidegate/slidegate/internal/batches"
	"github.com/slidegate/slidegate/internal/detach"
	"github.com/slidegate/slidegate/rule"
	"github.com/slidegate/slidegate/store"
)

// Units that were admitted without the store are charged there as soon as it answers again: a timer tries while any are
// owed, and the end of an outage at once. A charge without an answer is never sent again, because it may have been carried
// out. So nothing is charged to a node that is out, the store has to answer a peek of the same key first, and a key that was
// late is charged later, and apart from others. A charge that was certainly not carried out is owed again.

// maxAddresses is the maximum of addresses charged in one call.
const maxAddresses = 256

// chargeSoon plans to charge what is owed, if anything is.
func (s *Store) chargeSoon(wait time.Duration) {
	o := s.optimism
	o.mu.Lock()
	defer o.mu.Unlock()
	switch {
	case o.ledger.owed == 0 || o.closed || o.running != nil:
	case o.timer == nil:
		o.timer = time.AfterFunc(wait, s.charge)
	case wait == 0:
		o.timer.Reset(0)
	}
}

// charge charges what is owed, and plans the next attempt if that was not everything.
func (s *Store) charge() {
	o := s.optimism
	o.mu.Lock()
	o.timer = nil
	if o.closed || o.running != nil {
		o.mu.Unlock()
		return
	}
	o.running = make(chan struct{})
	o.mu.Unlock()
	for s.chargeSome(s.life, false) == nil {
	}
	o.mu.Lock()
	close(o.running)
	o.running = nil
	o.mu.Unlock()
	s.chargeSoon(s.opts.ProbeEvery)
}

// errNothingOwed means that nothing is owed that can be charged now.
var errNothingOwed = errors.New("failure: nothing is owed")

// chargeSome charges what is owed for some addresses, also of nodes that are out if it is the last chance. It returns an error
// if there are none or the store did not answer all of it.
func (s *Store) chargeSome(ctx context.Context, last bool) error {
	o := s.optimism
	batch := s.collectOwed(last)
	if len(batch) == 0 {
		return errNothingOwed
	}
	limited, count := s.startCountdown(ctx, time.Now(), nil, 0)
	failed := applySafely(limited, s.bottom, batch)
	count.end()
	if failed != nil {
		batches.Spread(batch, failed)
	}
	call := o.send(batch)
	if !last {
		ctx = context.WithoutCancel(ctx) // Close waits for it
	}
	ctx, cancel := context.WithTimeout(ctx, detach.MaxTime)
	defer cancel()
	if batch = slices.DeleteFunc(batch, func(r store.Request) bool { return r.Err != nil }); len(batch) == 0 {
		return failed
	}
	err := applySafely(ctx, s.bottom, batch) // a layer may have less patience, and mix it with the calls of others
	if err != nil {
		batches.Spread(batch, err)
	}
	o.acknowledge(batch, call, s.now())
	for i := range batch {
		if r := &batch[i]; errors.Is(r.Err, store.ErrDown) {
			s.open(s.nodeOf(r.Charges[0].Limit, r.Group, r.Charges[0].Key), r.Err)
		}
	}
	return errors.Join(failed, err)
}

// collectOwed returns peeks at addresses that units are owed for: of nodes that are not out, and not of keys that were late,
// unless nothing else is owed; then it returns one of those that were not late lately.
func (s *Store) collectOwed(last bool) (batch []store.Request) {
	o, now := s.optimism, s.sinceBase()
	o.mu.Lock()
	defer o.mu.Unlock()
	var late []store.Request
	for at := range o.ledger.accounts {
		a := o.ledger.find(at, s.wall(now))
		if a == nil || a.owedUnits() == 0 || !last && s.nodeOf(a.limit, at.group, at.key).out.Load() != nil {
			continue
		}
		r := store.Request{
			Op: rule.Peek, Group: at.group, Charges: []store.Charge{{Limit: a.limit, Key: at.key}}, Answers: make([]rule.Answer, 1),
		}
		switch isLate, lately := s.lateKeys.lateness(s.lateKeys.hashOf(at), now); {
		case !isLate:
			batch = append(batch, r)
		case last || !lately:
			late = append(late[:0], r)
		}
		if len(batch) == maxAddresses {
			break
		}
	}
	if len(batch) == 0 {
		return late
	}
	return batch
}

// owedUnits returns how many units were not yet sent to the store.
func (a *account) owedUnits() (units int64) {
	for i := range a.grains {
		if a.grains[i].standing == owed {
			units += a.grains[i].units
		}
	}
	return units
}

// send turns the peeks that were answered into charges of what is owed, which from now on counts as sent.
func (o *optimism) send(batch []store.Request) (call uint64) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.calls++
	for i := range batch {
		r := &batch[i]
		a := o.ledger.accounts[addressOf(r.Group, &r.Charges[0])]
		if r.Err != nil || a == nil { // a reset may have removed it; a charge of nothing does no harm
			continue
		}
		r.Op, r.Charges[0].Cost = rule.Charge, min(a.owedUnits(), rule.MaxQuota)
		for k := range a.grains {
			if g := &a.grains[k]; g.standing == owed {
				o.ledger.setStanding(g, sent)
				g.call = o.calls
			}
		}
	}
	return o.calls
}

// acknowledge records what the store acknowledged. What it certainly did not carry out is owed again; the rest remains sent.
func (o *optimism) acknowledge(batch []store.Request, call uint64, now rule.Micros) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for i := range batch {
		r := &batch[i]
		answer := &r.Answers[0]
		a := o.ledger.accounts[addressOf(r.Group, &r.Charges[0])]
		undone := errors.Is(r.Err, store.ErrUndone)
		if a == nil || r.Err != nil && !undone { // a reset may have removed it
			continue
		}
		for k := range a.grains {
			g := &a.grains[k]
			switch {
			case g.call != call || g.standing != sent:
			case undone:
				o.ledger.setStanding(g, owed)
			default:
				o.charged += g.units
				o.ledger.setStanding(g, charged)
			}
		}
		if undone {
			continue
		}
		o.ledger.drop(a, func(g *grain) bool { return g.standing == charged && g.id == 0 })
		if answer.Remaining == 0 {
			a.rest = max(a.rest, now+answering.After(answer))
		}
	}
}

// Close stops probing, charges what FailOptimistic has admitted without the store, and waits for it until ctx ends. It returns
// an error if the store has not acknowledged everything. From then on FailOptimistic admits nothing, and a store that is out
// stays out for this layer.
func (s *Store) Close(ctx context.Context) error {
	o := s.optimism
	o.mu.Lock()
	o.closed = true
	running := o.running
	if o.timer != nil {
		o.timer.Stop()
	}
	o.mu.Unlock()
	s.stopProbing()
	if running != nil {
		select {
		case <-running:
		case <-ctx.Done():
			return fmt.Errorf("failure: not everything was charged: %w", ctx.Err())
		}
	}
	for {
		if err := s.chargeSome(ctx, true); err == errNothingOwed {
			return nil
		} else if err != nil {
			return fmt.Errorf("failure: not everything was charged: %w", err)
		}
	}
}
