package memstore

import "github.com/slidegate/slidegate/rule"

// A key without a slot gets one that was never used or whose key has expired or, if there is none, the slot of the
// least-used key near its home.

// placeFree claims a slot that was never used or whose key has expired, if there is one.
func (c *claim) placeFree(now rule.Micros) bool {
	if now < c.page.fullUntil {
		return false
	}
	found := c.each(0, func(i int) bool {
		if hash := c.form.hash(c.page, i); hash != unused && c.form.expires(c.plan.table, c.page, i, c.form.peek(c.page, i)) > now {
			return false
		}
		word, ok := c.form.tryClaim(c.page, i)
		if !ok {
			return false
		}
		if c.form.hash(c.page, i) != unused && c.form.expires(c.plan.table, c.page, i, word) > now { // it has become live again
			c.form.release(c.page, i, word)
			return false
		}
		c.slot, c.word = i, word
		return true
	})
	if !found && c.crowded { // the next requests need not search again
		c.page.fullUntil = c.plan.table.firstToExpire(c.page)
	}
	return found
}

// firstToExpire returns when the first key of a page expires; 0 if a slot was never used. Requests that decide without the
// page's lock only make keys expire later.
func (t *table) firstToExpire(g *page) rule.Micros {
	f := t.form(g)
	first := rule.Never
	for i := range f.slots() {
		w := f.peek(g, i)
		if f.hash(g, i) == unused || w == locked { // by a request without the page's lock: it is not known when its key expires
			return 0
		}
		first = min(first, f.expires(t, g, i, w))
	}
	return first
}

// evict claims the slot of the least-used key near the claim's home, which is to be forgotten.
func (c *claim) evict(now rule.Micros) bool {
	best := c.leastUsed(now, c.form.peek)
	word, ok := uint64(0), false
	if best >= 0 {
		word, ok = c.form.tryClaim(c.page, best)
	}
	if !ok { // the guess was a claimed slot: only now is it worth claiming each slot
		best = c.leastUsed(now, func(g *page, i int) uint64 {
			if word, ok := c.form.tryClaim(g, i); ok {
				c.form.release(g, i, word)
				return word
			}
			return locked
		})
		if best < 0 {
			return false
		}
		word = c.form.claim(c.page, best)
	}
	c.slot, c.evicts, c.victim, c.word = best, true, c.form.hash(c.page, best), word
	c.form.load(c.plan.table, c.page, best, c.word, &c.lost)
	return true
}

// leastUsed returns the slot near the claim's home whose key has used the least, according to words; -1 if all are locked.
func (c *claim) leastUsed(now rule.Micros, words func(g *page, i int) uint64) (best int) {
	best, least := -1, int64(0)
	c.each(uint32(c.h>>32), func(i int) bool { // not always from home on: among keys with the same usage, any may be forgotten
		word := words(c.page, i)
		if word == locked {
			return false
		}
		if weight := c.form.weight(c.plan.table, c.page, i, word, now); best < 0 || weight < least {
			best, least = i, weight
		}
		return least <= 1 // no live key has used less
	})
	return best
}

// each calls do for the slots in which the claim's key may be, starting at one of them, until do returns true, and
// reports whether it did.
func (c *claim) each(from uint32, do func(i int) bool) bool {
	n, reach, home := c.form.slots(), c.form.reach(), c.form.home(c.h)
	k := int(from % uint32(reach))
	for range reach {
		i := home + k
		if i >= n {
			i -= n
		}
		if do(i) {
			return true
		}
		if k++; k == reach {
			k = 0
		}
	}
	return false
}
