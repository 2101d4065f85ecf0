package memstore

import "github.com/slidegate/slidegate/rule"

// form is how states are laid out in the slots of a page. There are four forms: a pair of counts in one word, the same
// without bounds on counts and times, and whole lines for all other states, in two widths.
//
// Slots are claimed before they are read or changed, under the lock of their page. Claiming returns a word, which the other
// methods need in order to leave the slot as it was.
type form interface {
	// slots returns how many slots a page has; a key is in one of the reach slots from its home on, wrapping around.
	slots() int
	reach() int
	home(h uint64) int

	// hash returns the hash of the key in slot i.
	hash(g *page, i int) uint64
	// peek returns the current word of slot i, claimed or not: good enough for a guess.
	peek(g *page, i int) (word uint64)
	// claim claims slot i, which is not claimed. It waits for requests that decide about its key without the page's lock.
	claim(g *page, i int) (word uint64)
	// tryClaim is claim without waiting. It returns false if the slot is claimed already.
	tryClaim(g *page, i int) (word uint64, ok bool)
	// release ends a claim and leaves the slot as it was.
	release(g *page, i int, word uint64)
	// bury leaves the slot claimed forever.
	bury(g *page, i int)

	// expires returns the time from which the claimed slot decides as if its key had never been seen.
	expires(t *table, g *page, i int, word uint64) rule.Micros
	// weight returns approximately how many units the key has in use, for choosing a key to forget.
	weight(t *table, g *page, i int, word uint64, now rule.Micros) int64
	// load copies the state of the claimed slot.
	load(t *table, g *page, i int, word uint64, s *rule.State)
	// write gives the claimed slot to h, with the state s, and ends the claim.
	write(t *table, g *page, i int, word, h uint64, s *rule.State)
	// copy copies the claimed slot to slot j of an unpublished page of the same form.
	copy(g *page, i int, word uint64, to *page, j int)
	// free releases the memory that the claimed slot has elsewhere. Afterwards the slot can only be buried.
	free(t *table, g *page, i int, word uint64)
	// fits reports whether a state can still be written after up to cost more units at now.
	fits(s *rule.State, now rule.Micros, cost int64) bool
}

// Reserved hashes.
const (
	unused   = uint64(0) // a slot that was never used: a search ends here
	reserved = uint64(1) // the smallest hash of a key
)

// reachLines is how many lines are searched for a key.
const reachLines = 64

// find returns the slot of h, or -1. Without the page's lock, -1 may be out of date.
func find(f form, g *page, h uint64) int {
	n := f.slots()
	i := f.home(h)
	for range f.reach() {
		switch f.hash(g, i) {
		case h:
			return i
		case unused:
			return -1
		}
		if i++; i == n {
			i = 0
		}
	}
	return -1
}

// homeOf distributes hashes over n positions, by bits that the directory does not use.
func homeOf(h uint64, n int) int { return int(uint64(uint32(h)) * uint64(n) >> 32) }
