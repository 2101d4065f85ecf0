package lease

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/slidegate/slidegate/rule"
	"github.com/slidegate/slidegate/store"
)

// keeper visits all holdings while there are any: it returns leases that have ended or lie idle, and forgets keys that
// are no longer requested.
type keeper struct {
	closed atomic.Bool

	starting sync.Mutex     // guards the fields below; none is started once closed is set
	running  sync.WaitGroup // one while there are holdings; a second one for a moment while the first ends
	stop     chan struct{}  // closed when they have to end; nil if none was ever started
	stopped  bool           // it is closed
}

// startKeeper starts a keeper, when the first holding was made.
func (s *Store) startKeeper() {
	s.starting.Lock()
	defer s.starting.Unlock()
	if s.closed.Load() {
		return
	}
	if s.stop == nil {
		s.stop = make(chan struct{})
	}
	s.running.Go(s.keep)
}

// stopKeeper ends the keeper and waits for it. Holdings that it leaves are no longer leased.
func (s *Store) stopKeeper() {
	s.starting.Lock()
	if s.stop != nil && !s.stopped {
		s.stopped = true
		close(s.stop)
	}
	s.starting.Unlock()
	s.running.Wait()
}

const (
	round      = 25 * time.Millisecond
	idleRounds = 3 // without a spend, after which unspent units are returned
	goneRounds = 40
	// outagePause is how long no lease is requested after a failed call: requests then go to the store themselves.
	outagePause = int64(100 * time.Millisecond)
	// mixedPause is how long a key is not leased after it was requested under several values of its limit.
	mixedPause = int64(time.Second)
)

func (s *Store) keep() {
	ticker := time.NewTicker(round)
	defer ticker.Stop()
	var all []*holding
	for left, stopped := true, false; left && !stopped; {
		select {
		case <-ticker.C:
		case <-s.stop:
			stopped = true
		}
		s.clock.checkSuspension()
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

// visit maintains one holding, and reports whether it can be removed.
func (s *Store) visit(e *holding) (done bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	now := s.clock.read()
	spent, out := e.spent()
	if spent.units != e.lastSpent {
		e.idle = 0
	} else {
		e.idle++
	}
	e.lastSpent = spent.units
	e.paceAt(now, spent.units)
	if out > 0 && (e.idle >= idleRounds || s.closed.Load()) {
		s.end(e, now)
	}
	for _, l := range [...]*lease{e.current.Load(), e.next} {
		if l != nil && now >= l.end {
			s.end(e, now)
			break
		}
	}
	if e.idle < goneRounds && !s.closed.Load() || e.transfers > 0 || e.resets > 0 {
		return false
	}
	e.gone = true
	return true
}

// forget removes a holding, and reports whether any is left. What was spent from it is added to the sums under the
// table's lock, so that Stats finds it in exactly one of them.
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

// endAll ends all leases immediately, because the store's clock may have been set.
func (s *Store) endAll() {
	for _, e := range s.table.all(nil) {
		e.mu.Lock()
		s.end(e, s.clock.read())
		e.mu.Unlock()
	}
}

// closeAll implements Close.
func (s *Store) closeAll(ctx context.Context) error {
	s.starting.Lock() // a keeper that is being started is waited for
	s.closed.Store(true)
	s.starting.Unlock()
	s.endAll()
	defer s.stopKeeper()
	s.transfers.mu.Lock()
	if s.transfers.calls == 0 {
		s.transfers.mu.Unlock()
		return nil
	}
	if s.transfers.done == nil {
		s.transfers.done = make(chan struct{})
	}
	done := s.transfers.done
	s.transfers.mu.Unlock()
	select {
	case <-done:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// newRefusal records a refusal, with the times before it was requested and after it was received.
func newRefusal(limit *store.Limit, cost int64, a *rule.Answer, sent, received int64) *refusal {
	if a.RetryAfter == rule.Never {
		return nil
	}
	return &refusal{
		limit: limit, cost: cost, until: sent + min(nanos(a.RetryAfter), refusalLife),
		retry: received + nanos(a.RetryAfter), reset: received + nanos(a.ResetAfter), answer: *a,
	}
}
