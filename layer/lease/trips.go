package lease

import (
	"context"
	"sync"

	"github.com/slidegate/slidegate/rule"
	"github.com/slidegate/slidegate/store"
)

// trips are the calls to the store that nobody makes for himself: for blocks, and to give back. Those that wait are made
// together.
type trips struct {
	mu     sync.Mutex
	queue  []trip
	flying int
	landed chan struct{} // closed when all are done; nil if nobody waits for that
}

// trip is one of them.
type trip struct {
	e     *holding
	turn  uint32 // of the holding
	limit *store.Limit
	back  bool        // give back, else take
	units int64       // at most
	at    rule.Micros // when what is given back was charged
}

const (
	mostFlying   = 2   // calls at once
	mostTogether = 256 // trips in a call
)

// renew asks for the block after b, unless somebody has.
func (s *Store) renew(e *holding, b *block) {
	if !b.asked.CompareAndSwap(false, true) {
		return
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.now.Load() != b || e.after != nil {
		return
	}
	now := s.clock.read()
	spent, left := e.spent()
	if units := e.paceAt(now, spent.units); float64(left)*float64(span) < float64(units)*float64(b.end-now) { // else it lasts until its end
		s.ask(e, b.limit, now, 0)
	}
}

// ask asks for a block, if that makes sense now, and reports whether one is on its way. least is what the block should have. The
// caller holds e.mu.
func (s *Store) ask(e *holding, limit *store.Limit, now, least int64) bool {
	if e.asking {
		return true
	}
	if e.gone || e.resets > 0 || now < e.barred || s.closed.Load() {
		return false
	}
	spent, _ := e.spent()
	units := max(least, blockSize(e.paceAt(now, spent.units), e.trip, e.lasts(limit, now), e.remains))
	e.asking = true
	s.enqueue(trip{e: e, turn: e.turn, limit: limit, units: min(units, limit.Rule().Capacity(), mostUnits)})
	return true
}

// lasts returns how long a block that is asked for now can be spent, about: as long as the one that is being spent, since they end
// with the same part. At the beginning of a part it is as long as it may be. The caller holds e.mu.
func (e *holding) lasts(limit *store.Limit, now int64) int64 {
	if b := e.now.Load(); b != nil && now < b.end && limit.Rule().Algorithm != rule.TokenBucket {
		return b.end - now
	}
	return int64(mostLife) * 1000
}

// giveBack sends back what is left of a block that was closed. The caller holds e.mu.
func (s *Store) giveBack(e *holding, b *block, left int64) {
	s.enqueue(trip{e: e, turn: b.turn, limit: b.limit, back: true, units: left, at: b.at})
}

// enqueue leaves a trip to be made. The caller holds the holding's lock.
func (s *Store) enqueue(t trip) {
	t.e.trips++
	s.trips.mu.Lock()
	defer s.trips.mu.Unlock()
	s.trips.queue = append(s.trips.queue, t)
	if s.trips.flying < mostFlying {
		s.trips.flying++
		go s.fly()
	}
}

// fly makes trips until none waits.
func (s *Store) fly() {
	f := flight{}
	for f.board(&s.trips) {
		s.carry(&f)
	}
}

// flight is the memory of a call.
type flight struct {
	trips    []trip
	requests []store.Request
	charges  []store.Charge
	answers  []rule.Answer
}

// board takes trips from the queue. If there are none, the flight is over.
func (f *flight) board(t *trips) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	n := min(len(t.queue), mostTogether)
	f.trips = append(f.trips[:0], t.queue[:n]...)
	t.queue = t.queue[:copy(t.queue, t.queue[n:])]
	if n > 0 {
		return true
	}
	if t.flying--; t.flying == 0 && t.landed != nil {
		close(t.landed)
		t.landed = nil
	}
	return false
}

// carry makes the call of a flight and hands out what it brought.
func (s *Store) carry(f *flight) {
	f.trips = f.trips[:s.weedOut(f.trips)]
	n := len(f.trips)
	if n == 0 {
		return
	}
	f.requests, f.charges, f.answers = f.requests[:0], f.charges[:0], f.answers[:0]
	for range n { // first, so that they do not move
		f.charges, f.answers = append(f.charges, store.Charge{}), append(f.answers, rule.Answer{})
	}
	for i := range f.trips {
		t := &f.trips[i]
		op := rule.TakeUpTo
		if t.back {
			op = rule.GiveBack
		}
		f.charges[i] = store.Charge{Limit: t.limit, Key: t.e.key, Cost: t.units, At: t.at}
		f.requests = append(f.requests, store.Request{Op: op, Group: t.e.group, Charges: f.charges[i : i+1], Answers: f.answers[i : i+1]})
	}
	ctx, cancel := context.WithTimeout(context.Background(), s.opts.Timeout)
	sent := s.clock.read() // before: the store decides later than this
	_ = s.inner.Apply(ctx, f.requests)
	heard := s.clock.read()
	cancel()
	for i := range f.trips {
		s.land(&f.trips[i], f.requests[i].Err, &f.answers[i], sent, heard)
	}
	s.counts.calls.Add(1)
	clear(f.requests)
	clear(f.charges)
}

// weedOut ends the trips that a reset has overtaken, and returns how many are left, which are moved to the front. Those for a
// block bring as much as is waited for by now.
func (s *Store) weedOut(all []trip) (n int) {
	for i := range all {
		t := &all[i]
		t.e.mu.Lock()
		stale := t.turn != t.e.turn
		if stale {
			if t.back {
				s.counts.wasted.Add(t.units)
			}
			t.e.over(t.back)
			if !t.back {
				t.e.dismiss()
			}
		} else if !t.back {
			t.units = max(t.units, min(t.e.wanted(), t.limit.Rule().Capacity(), mostUnits))
		}
		t.e.mu.Unlock()
		if !stale {
			all[n] = *t
			n++
		}
	}
	return n
}

// over notes that a trip is done. The caller holds e.mu.
func (e *holding) over(back bool) {
	e.trips--
	if !back {
		e.asking = false
	}
	if e.landed != nil && e.trips == 0 {
		close(e.landed)
		e.landed = nil
	}
}

// land notes what a trip brought.
func (s *Store) land(t *trip, err error, a *rule.Answer, sent, heard int64) {
	e := t.e
	e.mu.Lock()
	defer e.mu.Unlock()
	if t.back {
		s.noteReturn(t, err, a)
		e.over(true)
		return
	}
	spent, _ := e.spent()
	e.paceAt(heard, spent.units) // before those who wait are served
	e.trip = min(max(heard-sent, e.trip/2), longestTrip)
	brought := s.bring(t, err, a, sent, heard)
	e.over(false)
	if len(e.waiting) > 0 && !(brought && s.ask(e, e.limit, heard, e.wanted())) {
		e.dismiss()
	}
}

// noteReturn notes what became of units that were given back.
func (s *Store) noteReturn(t *trip, err error, a *rule.Answer) {
	switch {
	case t.at < 0: // a fallback had granted it: it was never a block
	case err != nil: // nobody knows; to send it again might give back twice
		s.counts.wasted.Add(t.units)
	case a.Flags.Fallback(): // nor here
		s.counts.wasted.Add(t.units)
	default:
		t.e.denied.Store(nil) // there may be room again
		s.counts.returned.Add(a.Granted)
		s.counts.wasted.Add(t.units - a.Granted)
	}
}

// bring makes a block of what a trip brought, and reports whether there is one that can be spent. The caller holds the
// holding's lock.
func (s *Store) bring(t *trip, err error, a *rule.Answer, sent, heard int64) bool {
	e := t.e
	if err != nil || a.Flags.Fallback() {
		e.barred = heard + outage
		if err == nil && a.Granted > 0 { // who answered in the store's place may have counted it
			s.enqueue(trip{e: e, turn: e.turn, limit: t.limit, back: true, units: a.Granted, at: a.At})
		}
		return false
	}
	stepped := e.seen.stepped(a.At, sent, heard) || a.Flags.ClockMoved()
	e.seen = sighting{a.At, sent, heard}
	e.remains = a.Remaining
	if stepped {
		go s.endAll()
	}
	if a.Granted == 0 {
		e.denied.Store(newRefusal(t.limit, 1, a, sent, heard))
		return false
	}
	e.denied.Store(nil)
	b := &block{
		limit: t.limit, turn: t.turn, at: a.At, end: sent + life(t.limit.Rule(), a.At), reset: heard + nanos(a.ResetAfter),
		low: lowMark(a.Granted, e.trip), size: a.Granted,
	}
	b.word.Store(uint64(b.size))
	s.counts.taken.Add(a.Granted)
	switch {
	case t.turn != e.turn: // it may have been charged before a reset or after it
		s.counts.wasted.Add(a.Granted)
		return false
	case stepped || heard >= b.end || !same(t.limit, e.limit) || e.gone || s.closed.Load():
		s.giveBack(e, b, b.size)
		return false
	case e.spendable(heard) == 0:
		e.serve(b)
		s.replace(e, b, heard)
	case e.after == nil:
		e.serve(b)
		e.after = b
	default: // nobody asks for a third one
		s.giveBack(e, b, b.size)
		return false
	}
	return true
}

// spendable returns what is left of the block that is being spent. The caller holds e.mu.
func (e *holding) spendable(now int64) int64 {
	b := e.now.Load()
	if b == nil || now >= b.end {
		return 0
	}
	left, _ := b.left()
	return left
}
