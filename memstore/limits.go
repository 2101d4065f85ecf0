package memstore

import (
	"cmp"
	"fmt"
	"slices"
	"sync/atomic"

	"github.com/slidegate/slidegate/rule"
	"github.com/slidegate/slidegate/store"
)

// use is why a table is kept. It is guarded by Store.mu.
type use struct {
	requested bool        // a request has used the limit, or it was prepared
	prepared  int         // how many times it is prepared
	busyUntil rule.Micros // a key was live at the last scan, so there is no point in scanning again before this time
	scanned   rule.Micros // when the last scan found no two pages to merge
}

// counts reports whether the table counts towards MaxLimits: tables of prepared limits have reserved space, and those from
// a folder cost nothing more until they are requested.
func (u *use) counts() bool { return u.requested && u.prepared == 0 }

// Prepare reserves space for limits in advance, so that others cannot take it: they do not count towards Options.MaxLimits
// and keep their tables until release is called. It may be called at any time, also repeatedly for the same limits.
func (s *Store) Prepare(limits []*store.Limit) (release func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	prefixes := make([]string, 0, len(limits))
	for _, limit := range limits {
		t := s.tables[limit.Prefix()]
		if t == nil {
			t = s.addTable(limit)
		}
		s.changeUse(t, func(u *use) { u.requested, u.prepared = true, u.prepared+1 })
		prefixes = append(prefixes, limit.Prefix())
	}
	var released atomic.Bool
	return func() {
		if released.Swap(true) {
			return
		}
		s.mu.Lock()
		defer s.mu.Unlock()
		for _, prefix := range prefixes {
			s.changeUse(s.tables[prefix], func(u *use) { u.prepared-- })
		}
		for s.counted > s.opts.MaxLimits && s.dropIdle() {
		}
	}
}

// tableOf returns the table of a limit that a request uses, and its tag.
func (s *Store) tableOf(limit *store.Limit) (t *table, tag uint32, own bool, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	t = s.tables[limit.Prefix()]
	if t == nil {
		if s.counted >= s.opts.MaxLimits && !s.dropIdle() {
			return nil, 0, false, tooManyLimits(s.counted)
		}
		t = s.addTable(limit)
	}
	s.changeUse(t, func(u *use) { u.requested = true })
	tag, own = s.tagOf(t, limit.Rule())
	return t, tag, own, nil
}

func tooManyLimits(n int) error {
	return fmt.Errorf("%w: %d exist already; use fewer different names and windows, or raise MaxLimits", ErrLimits, n)
}

// changeUse changes the use of a table, and updates the count of tables.
func (s *Store) changeUse(t *table, to func(*use)) {
	before := t.use.counts()
	to(&t.use)
	switch after := t.use.counts(); {
	case after && !before:
		s.counted++
	case before && !after:
		s.counted--
	}
}

// dropIdle drops a table that counts and has no live key, and reports whether there was one. The caller holds s.mu.
func (s *Store) dropIdle() bool {
	now := s.clock.read()
	for _, t := range s.tables {
		if !t.use.counts() || now < t.use.busyUntil {
			continue
		}
		if until := t.liveUntil(now); until > now {
			t.use.busyUntil = max(until, now+rescanAfter)
			continue
		}
		if s.drop(t) {
			return true
		}
	}
	return false
}

// liveUntil returns when a live key of the table will expire, or 0 if no key is live and nothing is remembered.
func (t *table) liveUntil(now rule.Micros) rule.Micros {
	t.mu.Lock()
	defer t.mu.Unlock()
	if until := t.heldUntil(now, false); until > now {
		return until
	}
	if f := t.forgotten.Load(); f != nil {
		if until := f.until(); until > now {
			return until
		}
	}
	for _, g := range t.pages() {
		f := t.form(g)
		for i := range f.slots() {
			if f.hash(g, i) == unused {
				continue
			}
			w := f.peek(g, i)
			if w == locked { // by a request, so it is live, or will be known to be when that has ended
				return now + 1
			}
			if until := f.expires(t, g, i, w); until > now {
				return until
			}
		}
	}
	return 0
}

// drop removes a table, unless one of its keys has become live again, and reports whether it did. Requests that still refer
// to the table find all of its slots claimed and its pages dead, and look up the current table. The caller holds s.mu, for
// which these requests wait.
func (s *Store) drop(t *table) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	var pages []*page
	for _, g := range t.pages() {
		pages = append(pages, g)
	}
	slices.SortFunc(pages, func(a, b *page) int { return cmp.Compare(a.order, b.order) })
	now, alive := s.clock.read(), false
	words := make([][]uint64, len(pages))
	for i, g := range pages {
		var live []tenant
		g.mu.Lock()
		if words[i], live = t.claimAll(g, now, nil); len(live) > 0 {
			alive = true
			break
		}
	}
	alive = alive || t.heldUntil(now, true) > now
	t.dropped.Store(!alive)
	for i, g := range pages {
		switch {
		case words[i] == nil: // not reached
			continue
		case alive:
			t.releaseAll(g, words[i])
		default:
			t.retire(g, words[i], now)
		}
		g.mu.Unlock()
	}
	if alive {
		return false
	}
	for _, g := range t.held.all() {
		t.moveHolds(g, rule.Never, nil) // all of them have ended
	}
	t.account(-t.bytes.Load())
	if f := t.forgotten.Load(); f != nil {
		f.close()
	}
	for i := range s.plans { // they would keep its memory alive
		if p := s.plans[i].Load(); p != nil && p.table == t {
			s.plans[i].CompareAndSwap(p, nil)
		}
	}
	s.changeUse(t, func(u *use) { *u = use{} })
	delete(s.tables, t.prefix)
	return true
}
