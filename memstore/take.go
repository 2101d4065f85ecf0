package memstore

import (
	"context"
	"sync/atomic"

	"github.com/slidegate/slidegate/internal/quick"
	"github.com/slidegate/slidegate/rule"
	"github.com/slidegate/slidegate/store"
)

// TakeSingle decides the most common request: without any lock if the key has a slot, its state fits in one word and the
// case is a common one. Everything is passed in registers.
func (s *Store) TakeSingle(ctx context.Context, limit *store.Limit, key string, cost int64) (
	allowed bool, flags rule.Flags, remaining int64, after, resetAfter, at rule.Micros, err error,
) {
	if err = ctx.Err(); err != nil {
		return false, 0, 0, 0, 0, 0, endedError(err)
	}
	p := s.plans[limit.ID()%uint64(len(s.plans))].Load()
	if p == nil || p.bound != limit {
		if p, err = s.newPlan(limit); err != nil {
			return false, 0, 0, 0, 0, 0, err
		}
	}
	var h uint64
	if len(key) <= shortKey {
		h = p.hashShort(key)
	} else {
		h = p.hash("", key)
	}
	if s.keeper != nil && p.notes == nil {
		return s.takeOneLocked(p, h, cost)
	}
	t := p.table
	g := t.page(h)
	if t.lines != nil {
		return s.takeLine(g, p, h, cost)
	}
	special := t.special.Load()
	if special && g.held {
		return s.takeOneLocked(p, h, cost)
	}
	if t.layout.window == 0 || special && g.second {
		return s.takeTall(g, p, h, cost)
	}
	hash, slot := findPair(g, h)
	if slot == nil {
		return s.takeOneLocked(p, h, cost)
	}
	y := &t.layout
	for {
		word := slot.Load()
		index := word >> (y.indexAt & 63)
		if index-1 >= y.maxIndex || hash.Load() != h { // locked, absent, or another key's
			return s.takeOneLocked(p, h, cost)
		}
		// This comes after the word was read, whose writer had read the clock before.
		now := s.clock.read()
		outcome, shift, current, previous, remaining, after, resetAfter := quick.TakePair(p.limit,
			rule.Micros(y.first+int64(index))*y.window, int64(word)&y.maxCount, int64(word>>(y.countBits&63))&y.maxCount, now, cost)
		switch {
		case outcome == quick.Refused || outcome == quick.Admitted && cost == 0:
			return outcome == quick.Admitted, 0, remaining, after, resetAfter, now, nil
		case outcome == quick.Undecided || current > y.maxCount || index+shift > y.maxIndex:
			return s.takeOneLocked(p, h, cost)
		}
		next := (index+shift)<<(y.indexAt&63) | word&y.owner | uint64(previous)<<(y.countBits&63) | uint64(current)
		if p.notes.swap(slot, word, locked, next, h, cost, now) {
			return true, s.kept(), remaining, after, resetAfter, now, nil
		}
		stepBack()
	}
}

// takeLine is TakeSingle over a page whose slots take whole lines.
func (s *Store) takeLine(g *page, p *plan, h uint64, cost int64) (
	allowed bool, flags rule.Flags, remaining int64, after, resetAfter, at rule.Micros, err error,
) {
	f := p.table.lines
	if p.table.special.Load() {
		if g.held {
			return s.takeOneLocked(p, h, cost)
		}
		if g.second {
			f = p.table.forms[1].(*linesForm)
		}
	}
	l := f.findLine(g, h)
	if l == nil {
		return s.takeOneLocked(p, h, cost)
	}
	outcome, remaining, after, resetAfter, at := f.take(l, h, p.limit, &s.clock, cost, p.notes)
	if outcome == quick.Undecided {
		return s.takeOneLocked(p, h, cost)
	}
	if p.notes != nil && cost > 0 && (outcome == quick.Admitted || p.limit.CountRefused) {
		flags = s.keeper.kept()
	}
	return outcome == quick.Admitted, flags, remaining, after, resetAfter, at, nil
}

// stepBack makes the loser of a race for a word pause for a few microseconds. The winner then decides many times before the
// cache line has to move again, which costs more than a decision. Without it, two processors together decide half as many
// requests for one key as one alone.
//
// It counts instead of reading a clock, because a test's clock may stand still while it waits. An atomic load in every round
// keeps the compiler from removing the loop; TestStepBack notices if it does.
func stepBack() {
	for range 10_000 {
		if awake.Load() {
			return
		}
	}
}

var awake atomic.Bool // never set
