package memstore

import "github.com/slidegate/slidegate/rule"

// form is how states lie in the slots of a page. There are four: a pair of counts in one word, the same with room for any count
// and time, and whole lines for all that is more, in two widths.
//
// Slots are claimed before they are read or changed, under the lock of their page. Claiming returns a word, which the other
// methods want: what is needed to leave the slot as it was.
type form interface {
	// slots is how many there are in a page; a key lies in one of the reach slots from its home on, round the page.
	slots() int
	reach() int
	home(h uint64) int

	// hash returns whose slot i is.
	hash(g *page, i int) uint64
	// peek returns the word of slot i as it is at this moment, claimed or not: good for a guess.
	peek(g *page, i int) (word uint64)
	// claim claims slot i, which is not claimed. It waits for those who decide about its key without the page's lock.
	claim(g *page, i int) (word uint64)
	// tryClaim is claim that does not wait. It is false if the slot is claimed already.
	tryClaim(g *page, i int) (word uint64, ok bool)
	// release ends a claim and leaves the slot as it was.
	release(g *page, i int, word uint64)
	// bury leaves the slot claimed for ever.
	bury(g *page, i int)

	// expires returns from when on the claimed slot decides as if its key had never come.
	expires(t *table, g *page, i int, word uint64) rule.Micros
	// weight is about how many units the key has in use, to choose which one to forget.
	weight(t *table, g *page, i int, word uint64, now rule.Micros) int64
	// load copies the state of the claimed slot.
	load(t *table, g *page, i int, word uint64, s *rule.State)
	// write gives the claimed slot to h, with the state s, and ends the claim.
	write(t *table, g *page, i int, word, h uint64, s *rule.State)
	// copy copies the claimed slot to slot j of a page of the same form that nobody knows yet.
	copy(g *page, i int, word uint64, to *page, j int)
	// free gives back the memory that the claimed slot has elsewhere. What is left of it is only good to be buried.
	free(t *table, g *page, i int, word uint64)
	// fits reports whether a state can be written after up to cost more units at now.
	fits(s *rule.State, now rule.Micros, cost int64) bool
}

// Reserved hashes.
const (
	unused   = uint64(0) // a slot that was never used: what is looked for is not behind it
	reserved = uint64(1) // the hashes of keys begin here
)

// reachLines is how many lines are looked through for a key.
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

// homeOf spreads hashes over n places, by bits that the directory does not use.
func homeOf(h uint64, n int) int { return int(uint64(uint32(h)) * uint64(n) >> 32) }
