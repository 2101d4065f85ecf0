package coalesce

import (
	"slices"

	"github.com/slidegate/slidegate/store"
)

// No two calls under way have an address in common. An address is in flight while a call that contains it is under way,
// and entries that need it then wait in its line. An entry can be sent when it is the first in the lines of all of its
// addresses, and none of them is in flight. It keeps its places meanwhile, so no later entry with one of these addresses
// overtakes it: whatever is before it in a line was there earlier, so what it waits for comes to an end.
//
// A call that was late may have been so because of any of its addresses: one of its rows may be locked. Entries that waited
// for one of them are therefore sent without entries of other addresses, until a call with the address is answered in time.
//
// Addresses are told apart by a hash. Two addresses with the same hash share a line, which only makes requests wait.

// flight is a slot in use: by a call under way, or by one that is about to be assembled. All fields are guarded by the
// store's mu.
type flight struct {
	// What is in flight: hashes for a call that was sent alone with few addresses, which has no lines unless others wait
	// for it, and lines for others.
	addresses []uint64
	lines     []*line

	index      int    // in Store.flights
	tick       uint64 // the watchdog's when the call began
	heavy      bool   // its call is one of few with much work
	collecting bool   // it is about to take the entries that are ready
	abandoned  bool   // it no longer has its slot
}

// line holds the entries that wait for an address, in order of arrival. It exists while there are any, or while the
// address is in flight in a call other than those with hashes.
type line struct {
	hash        uint64
	first, last *place
	flying      bool // the address is in flight
	claimed     bool // the call that is being assembled has the address
	late        bool // the last call with the address was not answered in time
}

// place is an entry's place in a line.
type place struct {
	entry          *entry
	in             *line
	previous, next *place
}

const (
	// fewAddresses is how many addresses a call that is sent alone has at most if it needs no lines: comparing a few
	// numbers takes less time than a map does.
	fewAddresses = 4
	keptLines    = 1024
)

// appendAddresses appends the hashes of all addresses of a batch to to, each once.
func appendAddresses(to []uint64, batch []store.Request) []uint64 {
	for i := range batch {
		r := &batch[i]
		for k := range r.Charges {
			to = append(to, r.Charges[k].Limit.Hash(r.Group, r.Charges[k].Key))
		}
	}
	if len(to) < 2 {
		return to
	}
	slices.Sort(to)
	return slices.Compact(to)
}

// isHeld reports whether a request with these addresses has to wait, because one of them is in flight or has a line.
func (s *Store) isHeld(addresses []uint64) bool {
	for _, a := range addresses {
		if len(s.lines) > 0 && s.lines[a] != nil || s.fliesAlone(a) {
			return true
		}
	}
	return false
}

// fliesAlone reports whether a call without lines has the address.
func (s *Store) fliesAlone(address uint64) bool {
	for _, f := range s.flights {
		for _, a := range f.addresses {
			if a == address {
				return true
			}
		}
	}
	return false
}

// takeSlot returns a slot that is in use from now on.
func (s *Store) takeSlot() *flight {
	n := len(s.flights)
	if n == cap(s.flights) {
		s.flights = append(s.flights, nil)
	} else {
		s.flights = s.flights[:n+1]
	}
	f := s.flights[n]
	if f == nil {
		f = new(flight)
		s.flights[n] = f
	}
	f.index, f.tick = n, s.watchdog.tick
	return f
}

// freeSlot takes f out of the slots in use. It is used again, unless it was abandoned.
func (s *Store) freeSlot(f *flight) {
	last := len(s.flights) - 1
	if f.index != last {
		s.flights[f.index] = s.flights[last]
		s.flights[f.index].index = f.index
		s.flights[last] = f
	}
	if f.abandoned {
		s.flights[last] = nil
	}
	s.flights = s.flights[:last]
}

// flyAlone takes a slot for a call with these addresses, none of which is held.
func (s *Store) flyAlone(addresses []uint64, heavy bool) *flight {
	f := s.takeSlot()
	f.heavy = heavy
	if len(addresses) <= fewAddresses {
		f.addresses = append(f.addresses[:0], addresses...)
		return f
	}
	for _, a := range addresses {
		l := s.lineOf(a)
		l.flying = true
		f.lines = append(f.lines, l)
	}
	return f
}

// lineOf returns the line of an address, creating it if there is none.
func (s *Store) lineOf(address uint64) *line {
	l := s.lines[address]
	if l != nil {
		return l
	}
	if n := len(s.spare); n > 0 {
		l = s.spare[n-1]
		s.spare = s.spare[:n-1]
	} else {
		l = new(line)
	}
	*l = line{hash: address, flying: s.fliesAlone(address)}
	s.lines[address] = l
	return l
}

// land ends the flight of a call's addresses. What waited for them may be ready then.
func (s *Store) land(f *flight, late bool) {
	if len(s.lines) > 0 {
		for _, a := range f.addresses {
			if l := s.lines[a]; l != nil {
				l.flying, l.late = false, late
				s.advance(l, false)
			}
		}
	}
	for _, l := range f.lines {
		l.flying, l.late = false, late
		s.advance(l, false)
	}
	f.heavy = false
	f.addresses = f.addresses[:0]
	clear(f.lines)
	f.lines = f.lines[:0]
}

// advance gives the first entry of a line its turn, or removes the line if it is empty. The address must not be in
// flight. If the entry is ready, it comes before or after others that are.
func (s *Store) advance(l *line, before bool) {
	if l.first == nil {
		if !l.claimed {
			delete(s.lines, l.hash)
			if len(s.spare) < keptLines {
				s.spare = append(s.spare, l)
			}
		}
		return
	}
	e := l.first.entry
	if e.turns++; e.turns == len(e.places) {
		s.readyFor(e).add(e, before)
	}
}

// lineUp puts an entry into the lines of its addresses.
func (s *Store) lineUp(e *entry) {
	s.waiting += len(e.requests)
	e.places = slices.Grow(e.places[:0], len(e.addresses))[:len(e.addresses)]
	for i, a := range e.addresses {
		l, p := s.lineOf(a), &e.places[i]
		*p = place{entry: e, in: l, previous: l.last}
		l.last = p
		if p.previous != nil {
			p.previous.next = p
			continue
		}
		l.first = p
		if !l.flying {
			e.turns++
		}
	}
	if e.turns == len(e.places) {
		s.readyFor(e).add(e, false)
	}
}

// stepOut takes an entry out of the queue. Entries that waited for it come before others: if a call is being assembled
// that has taken the entry, they go with it.
func (s *Store) stepOut(e *entry) {
	s.waiting -= len(e.requests)
	if e.turns == len(e.places) {
		s.readyFor(e).remove(e)
	}
	for i := range e.places {
		p := &e.places[i]
		l, first := p.in, p.previous == nil
		if first {
			l.first = p.next
		} else {
			p.previous.next = p.next
		}
		if p.next == nil {
			l.last = p.previous
		} else {
			p.next.previous = p.previous
		}
		if first && !l.flying {
			s.advance(l, true)
		}
	}
	e.turns = 0
	clear(e.places)
	e.places = e.places[:0]
}

// isLate reports whether the last call with one of the entry's addresses was late.
func (e *entry) isLate() bool {
	return slices.ContainsFunc(e.places, func(p place) bool { return p.in.late })
}

// fits reports whether a ready entry can go with the entries of a call that is being assembled: if their addresses were
// late, only one that shares such an address.
func (e *entry) fits(late bool) bool {
	if !late {
		return !e.isLate()
	}
	return slices.ContainsFunc(e.places, func(p place) bool { return p.in.late && p.in.claimed })
}

// claim takes an entry that is ready for the call that f assembles.
func (s *Store) claim(f *flight, e *entry) {
	for i := range e.places {
		if l := e.places[i].in; !l.claimed {
			l.claimed = true
			f.lines = append(f.lines, l)
		}
	}
	s.stepOut(e)
}

// takeOff marks the addresses of an assembled call as in flight: entries that could still have gone with it wait.
func (s *Store) takeOff(f *flight) {
	f.tick = s.watchdog.tick
	for _, l := range f.lines {
		l.flying, l.claimed = true, false
		if l.first == nil {
			continue
		}
		e := l.first.entry
		if e.turns == len(e.places) {
			s.readyFor(e).remove(e)
		}
		e.turns--
	}
}
