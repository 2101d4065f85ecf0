package lease

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/slidegate/slidegate/rule"
	"github.com/slidegate/slidegate/store"
)

// keeper goes round all holdings while there are any: it gives back what has ended or lies idle, and forgets keys that nobody
// asks for any more.
type keeper struct{ closed atomic.Bool }

const (
	round      = 25 * time.Millisecond
	idleRounds = 3 // without a spend, and what is out goes back
	goneRounds = 40
	// outage is for how long no block is asked for after a call that failed: those who ask meet the store themselves.
	outage = int64(100 * time.Millisecond)
	// several is for how long a key is left alone that is asked for under several values of its limit.
	several = int64(time.Second)
)

func (s *Store) keep() {
	ticker := time.NewTicker(round)
	defer ticker.Stop()
	var all []*holding
	for left := true; left; {
		<-ticker.C
		s.clock.lookForSuspension()
		all = s.table.all(all[:0])
		left = len(all) > 0
		for _, e := range all {
			if s.visit(e) {
				left = s.forget(e)
			}
		}
		clear(all)
	}
}

// visit looks after one holding, and reports whether it can go.
func (s *Store) visit(e *holding) (done bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	now := s.clock.read()
	spent, out := e.spent()
	if spent.units != e.lastLook {
		e.idle = 0
	} else {
		e.idle++
	}
	e.lastLook = spent.units
	e.paceAt(now, spent.units)
	if out > 0 && (e.idle >= idleRounds || s.closed.Load()) {
		s.end(e, now)
	}
	for _, b := range [...]*block{e.now.Load(), e.after} {
		if b != nil && now >= b.end {
			s.end(e, now)
			break
		}
	}
	if e.idle < goneRounds && !s.closed.Load() || e.trips > 0 || e.resets > 0 {
		return false
	}
	e.gone = true
	return true
}

// forget takes a holding out that is done, and reports whether any is left. What was spent from it goes to the sums under the
// table's lock, so that Stats finds it either here or there.
func (s *Store) forget(e *holding) (left bool) {
	s.table.mu.Lock()
	defer s.table.mu.Unlock()
	e.mu.Lock()
	spent, _ := e.spent()
	e.mu.Unlock()
	s.counts.units.Add(spent.units)
	s.counts.spends.Add(spent.spends)
	return s.table.remove(e)
}

// endAll ends all blocks at once, because the clock of the store cannot be trusted to have gone on as it did.
func (s *Store) endAll() {
	for _, e := range s.table.all(nil) {
		e.mu.Lock()
		s.end(e, s.clock.read())
		e.mu.Unlock()
	}
}

// closeAll is Close.
func (s *Store) closeAll(ctx context.Context) error {
	s.closed.Store(true)
	s.endAll()
	s.trips.mu.Lock()
	if s.trips.flying == 0 {
		s.trips.mu.Unlock()
		return nil
	}
	if s.trips.landed == nil {
		s.trips.landed = make(chan struct{})
	}
	landed := s.trips.landed
	s.trips.mu.Unlock()
	select {
	case <-landed:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// newRefusal makes a note of a refusal, with the moments before it was asked for and after it was heard of.
func newRefusal(limit *store.Limit, cost int64, a *rule.Answer, sent, heard int64) *refusal {
	if a.RetryAfter == rule.Never {
		return nil
	}
	return &refusal{
		limit: limit, cost: cost, until: sent + min(nanos(a.RetryAfter), refusalLife),
		retry: heard + nanos(a.RetryAfter), reset: heard + nanos(a.ResetAfter), answer: *a,
	}
}
