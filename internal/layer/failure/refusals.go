package failure

import (
	"cmp"
	"hash/maphash"
	"slices"
	"strings"
	"sync/atomic"

	"github.com/slidegate/slidegate/internal/answering"
	"github.com/slidegate/slidegate/rule"
	"github.com/slidegate/slidegate/store"
)

// address identifies the state of a key under a limit; see store.Store.
type address struct{ prefix, group, key string }

func addressOf(group string, c *store.Charge) address { return address{c.Limit.Prefix(), group, c.Key} }

// refusals remembers what the store would refuse if it were asked: a key that the store has refused is not admitted because the
// store is gone. All of it stays true whatever the store answers later, so no answer replaces an earlier one that says more.
// There is a fixed number of places. An admission that left nothing never takes the place of a refusal that is still valid, so
// that only a client that is itself refused for thousands of keys can displace one.
type refusals struct {
	seed    maphash.Seed
	forgets atomic.Int64                                  // how often something was forgotten
	sets    [maxRefusals / places]atomic.Pointer[noteSet] // nil until needed: a table in use costs the garbage collector time
}

// noteSet is the places that an address may be in.
type noteSet struct {
	forgotten atomic.Int64 // refusals.forgets when something in it was last forgotten
	notes     [places]atomic.Pointer[note]
}

// With half as many keys as places, a set is full for fewer than one key in a thousand.
const (
	maxRefusals = 1 << 17
	places      = 16 // in a set
)

// note is what is known of an address under a limit. Another limit of the same address has another one.
type note struct {
	address
	limit   *rule.Limit
	facts   facts
	refused bool // and not only admitted without leaving anything
}

// fact says that a cost, and any larger one, is refused until a time if nothing is returned. The time counts from before the
// store was asked, so it ends no later than the store's own.
type fact struct {
	cost      int64
	remaining int64 // when the store was asked
	until     rule.Micros
}

// facts are the one with the smallest cost and the one that lasts longest. The zero fact is none.
type facts [2]fact

// slack is how much later a fact may end without being written: a cache repeats a refusal at every request.
const slack = rule.Micros(1000)

// imply reports whether a fact says nothing new.
func (f *facts) imply(other fact) bool {
	for i := range f {
		if f[i].cost <= other.cost && f[i].until >= other.until-slack {
			return true
		}
	}
	return false
}

// with returns facts and another one, without those that are over or that others imply.
func (f *facts) with(other fact, now rule.Micros) (kept facts) {
	all := [...]fact{f[0], f[1], other}
	slices.SortFunc(all[:], func(a, b fact) int { return cmp.Or(cmp.Compare(a.cost, b.cost), cmp.Compare(b.until, a.until)) })
	n := 0
	for _, one := range all {
		if one.until <= now || n > 0 && one.until <= kept[n-1].until {
			continue
		}
		n = min(n+1, len(kept))
		kept[n-1] = one // in place of the one between the smallest and the longest
	}
	return kept
}

// until returns the time when no fact holds any more.
func (f *facts) until() rule.Micros { return max(f[0].until, f[1].until) }

// isOf reports whether the note is of an address, and of a limit unless that is nil.
func (n *note) isOf(at *address, limit *rule.Limit) bool {
	return n != nil && n.address == *at && (limit == nil || *n.limit == *limit)
}

// isOver reports whether nothing is known any more.
func (n *note) isOver(now rule.Micros) bool { return n == nil || n.facts.until() <= now }

func (t *refusals) set(at *address) *atomic.Pointer[noteSet] {
	return &t.sets[maphash.Comparable(t.seed, *at)%uint64(len(t.sets))]
}

// needed returns a set that is needed now.
func needed(cell *atomic.Pointer[noteSet]) *noteSet {
	if cell.Load() == nil {
		cell.CompareAndSwap(nil, new(noteSet))
	}
	return cell.Load()
}

// moment is when a request was sent: by the clock, and as the number of times that something had been forgotten.
type moment struct {
	at      rule.Micros
	forgets int64
}

// record notes an answer to a request for a cost. After is the answer's, and positive.
func (t *refusals) record(group string, limit *store.Limit, key string, cost int64, allowed bool, remaining int64, after rule.Micros, sent moment) {
	by := limit.Rule()
	if after == rule.Never || by.Algorithm == rule.InFlight || by.Lease {
		return // slots and leased units are returned at any time
	}
	if allowed {
		cost = 1 // nothing is left
	}
	at, found := address{limit.Prefix(), group, key}, fact{cost, remaining, sent.at + after}
	set := needed(t.set(&at))
	for range places { // another goroutine may write at the same time
		place, old, known := set.place(&at, by, allowed, sent.at)
		if place == nil || known && old.facts.imply(found) || set.forgotten.Load() > sent.forgets {
			return
		}
		next := &note{address: at, limit: by, refused: !allowed}
		if known {
			next.address, next.facts = old.address, old.facts
			next.refused = next.refused || old.refused && !old.isOver(sent.at)
		} else {
			next.group, next.key = strings.Clone(group), strings.Clone(key)
		}
		if next.facts = next.facts.with(found, sent.at); known && next.facts == old.facts {
			return
		}
		if place.CompareAndSwap(old, next) {
			if set.forgotten.Load() > sent.forgets { // meanwhile
				place.CompareAndSwap(next, nil)
			}
			return
		}
	}
}

// place returns the place of a note and what is in it, and whether that is of the same address and limit. Otherwise it is the
// place that is best replaced, or nil if there is none for an admission.
func (s *noteSet) place(at *address, limit *rule.Limit, allowed bool, now rule.Micros) (place *atomic.Pointer[note], old *note, known bool) {
	for i := range s.notes {
		n := s.notes[i].Load()
		if n.isOf(at, limit) {
			return &s.notes[i], n, true
		}
		if (place == nil || n.yieldsTo(old, now)) && (n.isOver(now) || !n.refused || !allowed) {
			place, old = &s.notes[i], n
		}
	}
	return place, old, false
}

// yieldsTo reports whether n should be replaced rather than other: free places first, then admissions, then what ends soonest.
func (n *note) yieldsTo(other *note, now rule.Micros) bool {
	switch {
	case other.isOver(now):
		return false
	case n.isOver(now):
		return true
	case n.refused != other.refused:
		return !n.refused
	}
	return n.facts.until() < other.facts.until()
}

// forget forgets what is noted of an address that units were returned to, and what was sent before and is noted later.
func (t *refusals) forget(at address) {
	set := needed(t.set(&at))
	set.forgotten.Store(t.forgets.Add(1))
	for i := range set.notes {
		if n := set.notes[i].Load(); n.isOf(&at, nil) {
			set.notes[i].CompareAndSwap(n, nil)
		}
	}
}

// lookup returns for how long a cost is refused, or 0, and how many units remained when that was found out. Most is the
// largest cost that may not be.
func (t *refusals) lookup(group string, limit *store.Limit, key string, cost int64, now rule.Micros) (remaining int64, rest rule.Micros, most int64) {
	at := address{limit.Prefix(), group, key}
	most, remaining = rule.MaxQuota, rule.MaxQuota
	set := t.set(&at).Load()
	if set == nil {
		return 0, 0, most
	}
	for i := range set.notes {
		n := set.notes[i].Load()
		if !n.isOf(&at, limit.Rule()) {
			continue
		}
		for _, f := range n.facts {
			if f.until <= now {
				continue
			}
			most, remaining = min(most, f.cost-1), min(remaining, f.remaining)
			if f.cost <= cost {
				rest = max(rest, f.until-now)
			}
		}
	}
	return remaining, rest, most
}

// recordAll notes the store's answers to a request.
func (t *refusals) recordAll(r *store.Request, sent moment) {
	for i := range r.Charges {
		c, a := &r.Charges[i], &r.Answers[i]
		switch r.Op {
		case rule.Take, rule.TakeUpTo, rule.Peek, rule.Charge:
			if after := answering.After(a); after > 0 && !endsEarly(c.Limit, a.Allowed, a.Flags) {
				t.record(r.Group, c.Limit, c.Key, leastCost(r.Op, c), a.Allowed, a.Remaining, after, sent)
			}
		case rule.GiveBack, rule.Settle, rule.Reset:
			if r.Op == rule.Reset || a.Granted > 0 {
				t.forget(addressOf(r.Group, c))
			}
		}
	}
}

// endsEarly reports whether what an answer refuses, or leaves nothing of, may be free earlier: a reservation may end before its hold does.
func endsEarly(limit *store.Limit, allowed bool, flags rule.Flags) bool {
	return flags&rule.Held != 0 || allowed && limit.Rule().Hold > 0
}

// leastCost returns the smallest cost that satisfies a request.
func leastCost(op rule.Op, c *store.Charge) int64 {
	if op == rule.TakeUpTo {
		return min(c.Cost, 1)
	}
	return c.Cost
}

// stillRefused answers the charges of a take or peek that the store would still refuse, and reports whether there are any. The
// answers of others are empty. It replaces the charges of a TakeUpTo by a copy with lower costs if the store would not grant as
// much.
func (t *refusals) stillRefused(r *store.Request, now rule.Micros) (refused bool) {
	if r.Op != rule.Take && r.Op != rule.TakeUpTo && r.Op != rule.Peek {
		return false
	}
	charges := r.Charges
	for i := range r.Charges {
		c, a := &r.Charges[i], &r.Answers[i]
		remaining, rest, most := t.lookup(r.Group, c.Limit, c.Key, leastCost(r.Op, c), now)
		*a = rule.Answer{}
		switch {
		case rest > 0:
			refused = true
			*a = rule.Answer{Flags: remembered, Remaining: remaining, RetryAfter: rest, ResetAfter: rest, At: answering.Mark(now, 0)}
			if !isPossible(r.Op, c) {
				a.RetryAfter = rule.Never
			}
		case r.Op == rule.TakeUpTo && c.Cost > most:
			if &charges[0] == &r.Charges[0] {
				charges = slices.Clone(r.Charges)
			}
			charges[i].Cost = most
		}
	}
	r.Charges = charges
	return refused
}
