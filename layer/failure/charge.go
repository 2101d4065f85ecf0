package failure

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/slidegate/slidegate/rule"
	"github.com/slidegate/slidegate/store"
)

// Units that were admitted without the store are charged there as soon as it answers again, by a goroutine that runs
// while any are owed. It first peeks, to see whether the store answers, because a charge is never sent twice: a charge
// without an answer may have been carried out.

// maxAddresses is the maximum of addresses charged in one call.
const maxAddresses = 256

// startCharging starts the goroutine that charges what is owed, if necessary.
func (s *Store) startCharging() {
	o := s.optimism
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.ledger.owed == 0 || o.running || o.closed {
		return
	}
	o.running = true
	o.wait.Go(s.chargeLater)
}

// chargeLater charges until nothing is owed.
func (s *Store) chargeLater() {
	for s.pause() {
		if s.isBack() {
			for s.chargeSome(context.Background()) == nil {
			}
		}
		if s.optimism.stopIfIdle() {
			return
		}
	}
}

// stopIfIdle reports whether nothing is owed. If so, it records that the goroutine ends.
func (o *optimism) stopIfIdle() bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.running = o.ledger.owed > 0
	return !o.running
}

// pause waits until the next attempt. It reports false if the layer was closed.
func (s *Store) pause() bool {
	wait := s.opts.Timeout
	if s.state.Load().failed != nil {
		wait = s.untilProbe().Duration()
	}
	timer := time.NewTimer(wait)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-s.optimism.wake:
	case <-s.optimism.done:
		return false
	}
	return true
}

// isBack peeks at a key that units are owed for, and reports whether the store answered.
func (s *Store) isBack() bool {
	look := s.optimism.peekOwed(s.now())
	return look != nil && s.applyInner(context.Background(), look) == nil
}

// peekOwed returns a peek at a key that units are owed for, or nil if there is none.
func (o *optimism) peekOwed(now rule.Micros) []store.Request {
	o.mu.Lock()
	defer o.mu.Unlock()
	for at := range o.ledger.accounts {
		if a := o.ledger.find(at, now); a != nil && a.owedUnits() > 0 {
			return []store.Request{{
				Op: rule.Peek, Group: at.group, Charges: []store.Charge{{Limit: a.limit, Key: at.key}}, Answers: make([]rule.Answer, 1),
			}}
		}
	}
	return nil
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

// errNothingOwed means that nothing is owed.
var errNothingOwed = errors.New("failure: nothing is owed")

// chargeSome charges what is owed for some addresses. It returns an error if there are none or the store did not
// answer.
func (s *Store) chargeSome(ctx context.Context) error {
	o := s.optimism
	batch, call := o.collectOwed(s.now())
	if len(batch) == 0 {
		return errNothingOwed
	}
	ctx, cancel := context.WithTimeout(ctx, store.FinishTime)
	err := s.applySafely(ctx, batch)
	cancel()
	if err != nil && !slices.ContainsFunc(batch, func(r store.Request) bool { return r.Err != nil }) {
		_ = fillErr(batch, err) // the store does not report which request failed: no answer can be trusted
	}
	o.acknowledge(batch, call, s.now())
	return err
}

// collectOwed returns requests for what is owed, which from now on counts as sent.
func (o *optimism) collectOwed(now rule.Micros) (batch []store.Request, call uint64) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.calls++
	for at := range o.ledger.accounts {
		if len(batch) == maxAddresses {
			break
		}
		a := o.ledger.find(at, now)
		if a == nil {
			continue
		}
		units := a.owedUnits()
		if units == 0 {
			continue
		}
		for i := range a.grains {
			if g := &a.grains[i]; g.standing == owed {
				o.ledger.setStanding(g, sent)
				g.call = o.calls
			}
		}
		batch = append(batch, store.Request{
			Op: rule.Charge, Group: at.group, Answers: make([]rule.Answer, 1),
			Charges: []store.Charge{{Limit: a.limit, Key: at.key, Cost: min(units, rule.MaxQuota)}},
		})
	}
	return batch, o.calls
}

// acknowledge records what the store acknowledged. The rest remains sent.
func (o *optimism) acknowledge(batch []store.Request, call uint64, now rule.Micros) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for i := range batch {
		r := &batch[i]
		answer := &r.Answers[0]
		a := o.ledger.accounts[addressOf(r.Group, &r.Charges[0])]
		if r.Err != nil || answer.Flags.Fallback() || a == nil { // a reset may have removed it
			continue
		}
		for k := range a.grains {
			if g := &a.grains[k]; g.call == call && g.standing == sent {
				o.charged += g.units
				o.ledger.setStanding(g, charged)
			}
		}
		o.ledger.drop(a, func(g *grain) bool { return g.standing == charged && g.id == 0 })
		if answer.Remaining == 0 {
			a.rest = max(a.rest, now+answer.After())
		}
	}
}

// Close charges what the policy Optimistic has admitted without the store, and waits for it until ctx ends. From then
// on the layer admits nothing without the store; everything else works as before. Close returns an error if the store
// has not acknowledged everything. With other policies there is nothing to close.
func (s *Store) Close(ctx context.Context) error {
	o := s.optimism
	if o == nil {
		return nil
	}
	o.mu.Lock()
	if !o.closed {
		o.closed = true
		close(o.done)
	}
	o.mu.Unlock()
	ended := make(chan struct{})
	go func() {
		o.wait.Wait()
		close(ended)
	}()
	select {
	case <-ended:
	case <-ctx.Done():
		return fmt.Errorf("failure: not everything was charged: %w", ctx.Err())
	}
	for {
		if err := s.chargeSome(ctx); err == errNothingOwed {
			return nil
		} else if err != nil {
			return fmt.Errorf("failure: not everything was charged: %w", err)
		}
	}
}
