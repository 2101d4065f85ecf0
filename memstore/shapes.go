package memstore

import (
	"fmt"
	"iter"
	"sync/atomic"

	"github.com/slidegate/slidegate/rule"
	"github.com/slidegate/slidegate/store"
)

// use is why a table is there. It is guarded by Store.mu.
type use struct {
	asked    bool        // a request came for the shape, or a limit of it was prepared
	prepared int         // how many limits of the shape are prepared
	busy     rule.Micros // a key was live at the last look, so there is no sense in looking again before
}

// counts reports whether the table counts towards MaxShapes: those of prepared limits have room of their own, and those that
// came with a snapshot cost nothing more until they are asked for.
func (u *use) counts() bool { return u.asked && u.prepared == 0 }

// lookAgain is the least time between two looks for a live key in a table: a look may have to go through many expired ones.
const lookAgain = rule.Micros(100_000)

// Prepare makes room for limits whose requests are still to come, so that limits of other shapes cannot take it: their
// shapes do not count towards Options.MaxShapes and keep their tables until release is called. It may be called at any time,
// for the same limits too.
func (s *Store) Prepare(limits []*store.Limit) (release func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	shapes := make([]rule.Shape, 0, len(limits))
	for _, limit := range limits {
		shape := limit.Rule().Shape()
		t := s.tables[shape]
		if t == nil {
			t = s.addTable(shape)
		}
		s.change(t, func(u *use) { u.asked, u.prepared = true, u.prepared+1 })
		shapes = append(shapes, shape)
	}
	var released atomic.Bool
	return func() {
		if released.Swap(true) {
			return
		}
		s.mu.Lock()
		defer s.mu.Unlock()
		for _, shape := range shapes {
			s.change(s.tables[shape], func(u *use) { u.prepared-- })
		}
		for s.counted > s.opts.MaxShapes && s.dropIdle() {
		}
	}
}

// tableOf returns the table of a shape that a request came for.
func (s *Store) tableOf(shape rule.Shape) (*table, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	t := s.tables[shape]
	if t == nil {
		if s.counted >= s.opts.MaxShapes && !s.dropIdle() {
			return nil, tooManyShapes(s.counted)
		}
		t = s.addTable(shape)
	}
	s.change(t, func(u *use) { u.asked = true })
	return t, nil
}

func tooManyShapes(n int) error {
	return fmt.Errorf("%w: there are %d already; use fewer different windows, or raise MaxShapes", ErrShapes, n)
}

// known returns the table of a shape, or nil if there is none.
func (s *Store) known(shape rule.Shape) *table {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.tables[shape]
}

// addTable makes the table of a new shape. It holds s.mu, unless nobody else knows the store.
func (s *Store) addTable(shape rule.Shape) *table {
	t := newTable(s, shape)
	s.tables[shape] = t
	return t
}

// change changes why a table is there, and keeps count.
func (s *Store) change(t *table, to func(*use)) {
	before := t.use.counts()
	to(&t.use)
	switch after := t.use.counts(); {
	case after && !before:
		s.counted++
	case before && !after:
		s.counted--
	}
}

// dropIdle drops a table that counts and has no live key, and reports whether there was one. It holds s.mu.
func (s *Store) dropIdle() bool {
	now := s.now()
	for _, t := range s.tables {
		if !t.use.counts() || now < t.use.busy {
			continue
		}
		if until := t.liveUntil(now); until > now {
			t.use.busy = max(until, now+lookAgain)
			continue
		}
		if s.drop(t) {
			return true
		}
	}
	return false
}

// liveUntil returns when a live key of the table will expire, or 0 if none is live.
func (t *table) liveUntil(now rule.Micros) rule.Micros {
	t.mu.Lock()
	defer t.mu.Unlock()
	var state rule.State
	for _, g := range t.segments() {
		until := t.liveIn(g, now, &state)
		if until > 0 {
			return until
		}
	}
	return 0
}

func (t *table) liveIn(g segment, now rule.Micros, state *rule.State) rule.Micros {
	head := g.header()
	head.mu.Lock()
	defer head.mu.Unlock()
	for i := range t.sets * setSlots {
		if g.hash(i) == unused || !g.read(t, i, state) {
			continue
		}
		if until := t.limit.Expires(state); until > now {
			return until
		}
	}
	return 0
}

// segments yields every segment once, with the first hash that belongs to it. The caller holds t.mu.
func (t *table) segments() iter.Seq2[uint64, segment] {
	return func(yield func(uint64, segment) bool) {
		for at := uint64(0); ; {
			g := t.segment(at)
			depth := g.header().depth
			if !yield(at, g) || depth == 0 {
				return
			}
			if at += 1 << (64 - depth); at == 0 {
				return
			}
		}
	}
}

// drop takes a table away. Requests that know it find all of its slots claimed and its segments dead, and come back for the
// table that is there then. A key that came to life meanwhile is moved to that: drop then returns false. It holds s.mu, for
// which those who come back wait.
func (s *Store) drop(t *table) bool {
	t.dropped.Store(true)
	t.mu.Lock()
	var live []record
	for first, g := range t.segments() {
		live = t.empty(g, first, live)
		s.slots.Add(-t.segmentSlots())
	}
	t.mu.Unlock()
	for i := range s.plans { // which would keep its memory
		if p := s.plans[i].Load(); p != nil && p.table == t {
			s.plans[i].CompareAndSwap(p, nil)
		}
	}
	if len(live) == 0 {
		s.change(t, func(u *use) { *u = use{} })
		delete(s.tables, t.shape)
		return true
	}
	moved := s.addTable(t.shape)
	moved.use = t.use
	for i := range live {
		live[i].table = moved
	}
	restoreAll(live)
	return false
}

// empty moves all live states out of a segment and leaves it dead.
func (t *table) empty(g segment, first uint64, live []record) []record {
	head, now := g.header(), t.store.now()
	head.mu.Lock()
	defer head.mu.Unlock()
	s := rule.State{Counts: make([]int64, t.limit.Parts())}
	for i := range t.sets * setSlots {
		h := g.hash(i)
		g.drain(t, i, &s)
		if h == unused || t.limit.Expires(&s) <= now {
			continue
		}
		r := record{hash: h, state: s.Clone()}
		if h == floorHash {
			r.floor, r.set, r.sets, r.hash, r.depth = true, i/setSlots, t.sets, first, uint(head.depth)
		}
		live = append(live, r)
	}
	head.dead = true
	return live
}
