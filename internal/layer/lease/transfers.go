package lease

import (
	"context"
	"sync"

	"github.com/slidegate/slidegate/internal/answering"
	"github.com/slidegate/slidegate/rule"
	"github.com/slidegate/slidegate/store"
)

// transfers are the calls to the store that the layer itself makes, to take leases and to return units. Those that are queued
// are sent together.
type transfers struct {
	mu    sync.Mutex
	queue []transfer
	calls int
	done  chan struct{} // closed when all are done; nil if no goroutine waits for that
}

// transfer takes a lease or returns units.
type transfer struct {
	e     *holding
	turn  uint32 // of the holding
	limit *store.Limit
	back  bool        // return units, otherwise take
	units int64       // the maximum
	at    rule.Micros // when the returned units were charged
}

const (
	maxCalls     = 2   // concurrent calls
	maxTransfers = 256 // per call
)

// renew requests the lease after l, unless it was requested before.
func (s *Store) renew(e *holding, l *lease) {
	if !l.requested.CompareAndSwap(false, true) {
		return
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.current.Load() != l || e.next != nil {
		return
	}
	now := s.clock.read()
	spent, left := e.spent()
	if units := e.paceAt(now, spent.units); float64(left)*float64(span) < float64(units)*float64(l.end-now) { // otherwise it lasts until its end
		s.request(e, l.limit, now, 0)
	}
}

// request requests a lease, if possible now, and reports whether one is under way. The lease should have at least least
// units. The caller holds e.mu.
func (s *Store) request(e *holding, limit *store.Limit, now, least int64) bool {
	if e.requesting {
		return true
	}
	if e.gone || e.resets > 0 || now < e.barredUntil || s.closed.Load() {
		return false
	}
	spent, _ := e.spent()
	units := max(least, leaseSize(e.paceAt(now, spent.units), e.latency, e.lifeEstimate(limit, now), e.remains))
	e.requesting = true
	s.enqueue(transfer{e: e, turn: e.turn, limit: limit, units: min(units, limit.Rule().Capacity(), maxUnits)})
	return true
}

// lifeEstimate estimates how long a lease requested now can be spent: as long as the current one, since both end with the same
// part. At the beginning of a part it is the maximum. The caller holds e.mu.
func (e *holding) lifeEstimate(limit *store.Limit, now int64) int64 {
	if l := e.current.Load(); l != nil && now < l.end && limit.Rule().Algorithm != rule.TokenBucket {
		return l.end - now
	}
	return int64(maxLife) * 1000
}

// giveBack returns what is left of a closed lease to the store. The caller holds e.mu.
func (s *Store) giveBack(e *holding, l *lease, left int64) {
	s.enqueue(transfer{e: e, turn: l.turn, limit: l.limit, back: true, units: left, at: l.at})
}

// enqueue queues a transfer. The caller holds the holding's lock.
func (s *Store) enqueue(t transfer) {
	t.e.transfers++
	s.transfers.mu.Lock()
	defer s.transfers.mu.Unlock()
	s.transfers.queue = append(s.transfers.queue, t)
	if s.transfers.calls < maxCalls {
		s.transfers.calls++
		go s.runTransfers()
	}
}

// runTransfers sends transfers until the queue is empty.
func (s *Store) runTransfers() {
	c := transferCall{}
	for c.collect(&s.transfers) {
		s.send(&c)
	}
}

// transferCall is the reusable memory of a call.
type transferCall struct {
	transfers []transfer
	requests  []store.Request
	charges   []store.Charge
	answers   []rule.Answer
}

// collect takes transfers from the queue. It returns false if there are none, and the goroutine ends.
func (c *transferCall) collect(t *transfers) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	n := min(len(t.queue), maxTransfers)
	c.transfers = append(c.transfers[:0], t.queue[:n]...)
	t.queue = t.queue[:copy(t.queue, t.queue[n:])]
	if n > 0 {
		return true
	}
	if t.calls--; t.calls == 0 && t.done != nil {
		close(t.done)
		t.done = nil
	}
	return false
}

// send makes one call and distributes its results.
func (s *Store) send(c *transferCall) {
	c.transfers = c.transfers[:s.dropStale(c.transfers)]
	n := len(c.transfers)
	if n == 0 {
		return
	}
	c.requests, c.charges, c.answers = c.requests[:0], c.charges[:0], c.answers[:0]
	for range n { // first, so that they do not move
		c.charges, c.answers = append(c.charges, store.Charge{}), append(c.answers, rule.Answer{})
	}
	for i := range c.transfers {
		t := &c.transfers[i]
		op := rule.TakeUpTo
		if t.back {
			op = rule.GiveBack
		}
		c.charges[i] = store.Charge{Limit: t.limit, Key: t.e.key, Cost: t.units, At: t.at}
		c.requests = append(c.requests, store.Request{Op: op, Group: t.e.group, Charges: c.charges[i : i+1], Answers: c.answers[i : i+1]})
	}
	ctx, cancel := context.WithTimeout(context.Background(), s.opts.Timeout)
	sent := s.clock.read() // before: the store decides later than this
	_ = s.inner.Apply(ctx, c.requests)
	received := s.clock.read()
	cancel()
	for i := range c.transfers {
		s.complete(&c.transfers[i], c.requests[i].Err, &c.answers[i], sent, received)
	}
	s.counts.calls.Add(1)
	clear(c.requests)
	clear(c.charges)
}

// dropStale drops transfers that a reset has overtaken, and returns how many are left, which it moves to the front. Those
// for a lease now take as much as is waited for.
func (s *Store) dropStale(all []transfer) (n int) {
	for i := range all {
		t := &all[i]
		t.e.mu.Lock()
		stale := t.turn != t.e.turn
		if stale {
			if t.back {
				s.counts.wasted.Add(t.units)
			}
			t.e.transferDone(t.back)
			if !t.back {
				t.e.dismiss()
			}
		} else if !t.back {
			t.units = max(t.units, min(t.e.wantedUnits(), t.limit.Rule().Capacity(), maxUnits))
		}
		t.e.mu.Unlock()
		if !stale {
			all[n] = *t
			n++
		}
	}
	return n
}

// transferDone records that a transfer is done. The caller holds e.mu.
func (e *holding) transferDone(back bool) {
	e.transfers--
	if !back {
		e.requesting = false
	}
	if e.done != nil && e.transfers == 0 {
		close(e.done)
		e.done = nil
	}
}

// complete handles the result of a transfer.
func (s *Store) complete(t *transfer, err error, a *rule.Answer, sent, received int64) {
	e := t.e
	e.mu.Lock()
	defer e.mu.Unlock()
	if t.back {
		s.noteReturn(t, err, a)
		e.transferDone(true)
		return
	}
	spent, _ := e.spent()
	e.paceAt(received, spent.units) // before the waiters are served
	e.latency = min(max(received-sent, e.latency/2), maxLatency)
	added := s.addLease(t, err, a, sent, received)
	e.transferDone(false)
	if len(e.waiting) > 0 && !(added && s.request(e, e.limit, received, e.wantedUnits())) {
		e.dismiss()
	}
}

// noteReturn counts what became of returned units.
func (s *Store) noteReturn(t *transfer, err error, a *rule.Answer) {
	switch {
	case t.at < 0: // a fallback had granted it: it was never a lease
	case err != nil: // unknown; sending it again might return it twice
		s.counts.wasted.Add(t.units)
	case a.Flags&answering.Fallbacks != 0: // unknown as well
		s.counts.wasted.Add(t.units)
	default:
		t.e.refused.Store(nil) // units may be free again
		s.counts.returned.Add(a.Granted)
		s.counts.wasted.Add(t.units - a.Granted)
	}
}

// addLease makes a lease of a result, and reports whether there is one that can be spent. The caller holds the holding's
// lock.
func (s *Store) addLease(t *transfer, err error, a *rule.Answer, sent, received int64) bool {
	e := t.e
	if err != nil || a.Flags&answering.Fallbacks != 0 {
		e.barredUntil = received + outagePause
		if err == nil && a.Granted > 0 { // the fallback may have counted it
			s.enqueue(transfer{e: e, turn: e.turn, limit: t.limit, back: true, units: a.Granted, at: a.At})
		}
		return false
	}
	stepped := e.seen.stepped(a.At, sent, received) || a.Flags&rule.ClockMoved != 0
	e.seen = sighting{a.At, sent, received}
	e.remains = a.Remaining
	if stepped {
		go s.endAll()
	}
	if a.Granted == 0 {
		e.refused.Store(newRefusal(t.limit, 1, a, sent, received))
		return false
	}
	e.refused.Store(nil)
	l := &lease{
		limit: t.limit, turn: t.turn, at: a.At, end: sent + life(t.limit.Rule(), a.At), reset: received + nanos(a.ResetAfter),
		low: lowMark(a.Granted, e.latency), size: a.Granted,
	}
	l.word.Store(uint64(l.size))
	s.counts.taken.Add(a.Granted)
	switch {
	case t.turn != e.turn: // it may have been charged before or after a reset
		s.counts.wasted.Add(a.Granted)
		return false
	case stepped || received >= l.end || !sameRule(t.limit, e.limit) || e.gone || s.closed.Load():
		s.giveBack(e, l, l.size)
		return false
	case e.spendableUnits(received) == 0:
		e.serve(l)
		s.replace(e, l, received)
	case e.next == nil:
		e.serve(l)
		e.next = l
	default: // a third lease is never requested
		s.giveBack(e, l, l.size)
		return false
	}
	return true
}

// spendableUnits returns what is left of the current lease. The caller holds e.mu.
func (e *holding) spendableUnits(now int64) int64 {
	l := e.current.Load()
	if l == nil || now >= l.end {
		return 0
	}
	left, _ := l.left()
	return left
}
