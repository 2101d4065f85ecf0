package memstore

import (
	"runtime"
	"sync/atomic"

	"github.com/slidegate/slidegate/rule"
)

// pairForm holds states that fit in one word each: a hash and the word, four slots per line. A decision about an existing
// key takes no lock: it reads the word, decides, and swaps the word for the new one unless another request has changed it.
// A refusal writes nothing at all, so refusals scale with the number of processors.
//
// Everything else happens under the page's lock, and must respect requests without the lock: a claimed slot has the word
// `locked`, which makes them wait for the lock; a slot gets a new owner in the order word locked, new hash, new word, and a
// request that reads a word checks the hash again afterwards.
type pairForm struct {
	wordSlots
	layout
}

// wordSlots are slots that begin with a hash and a word, which is claimed. They have a power of two of words.
type wordSlots struct{ logWords uint }

var (
	pairSlots = wordSlots{logWords: 1}
	tallSlots = wordSlots{logWords: 2}
)

func (f wordSlots) slots() int        { return pageLines * lineWords >> f.logWords }
func (f wordSlots) reach() int        { return reachLines * lineWords >> f.logWords }
func (f wordSlots) home(h uint64) int { return homeOf(h, pageLines) * lineWords >> f.logWords }

// at returns the first two words of a slot.
func (f wordSlots) at(g *page, i int) (hash, word *atomic.Uint64) {
	first := uint(i) << f.logWords
	l := &g.lines[first/lineWords]
	return &l[first%lineWords], &l[(first+1)%lineWords]
}

// findPair returns pointers to the hash and the word of h; nil if it is not there. It is find, optimized for speed.
func findPair(g *page, h uint64) (hash, word *atomic.Uint64) {
	at := uint(homeOf(h, pageLines))
	for range reachLines {
		l := &g.lines[at]
		for i := uint(0); i < lineWords; i += 2 {
			switch l[i].Load() {
			case h:
				return &l[i], &l[i+1]
			case unused:
				return nil, nil
			}
		}
		if at++; at == pageLines {
			at = 0
		}
	}
	return nil, nil
}

func (f wordSlots) hash(g *page, i int) uint64 {
	hash, _ := f.at(g, i)
	return hash.Load()
}

func (f wordSlots) peek(g *page, i int) uint64 {
	_, word := f.at(g, i)
	return word.Load()
}

// claim waits for a request that has claimed the slot without the page's lock, to note what it takes.
func (f wordSlots) claim(g *page, i int) uint64 {
	for spins := 1; ; spins++ {
		if w, ok := f.tryClaim(g, i); ok {
			return w
		}
		if spins%64 == 0 {
			runtime.Gosched()
		}
	}
}

func (f wordSlots) tryClaim(g *page, i int) (uint64, bool) {
	_, word := f.at(g, i)
	w := word.Load()
	// The slot of an expired key may become live before it is claimed: its owner needs no lock for that.
	return w, w != locked && word.CompareAndSwap(w, locked)
}

func (f wordSlots) release(g *page, i int, w uint64) {
	_, word := f.at(g, i)
	word.Store(w)
}

func (wordSlots) bury(*page, int) {} // locked stays until it is overwritten

func (f pairForm) expires(_ *table, _ *page, _ int, w uint64) rule.Micros { return f.layout.expires(w) }

func (f pairForm) weight(_ *table, _ *page, _ int, w uint64, now rule.Micros) int64 {
	return f.layout.weight(w, now)
}

func (f pairForm) load(_ *table, _ *page, _ int, w uint64, s *rule.State) {
	s.Counts = append(s.Counts[:0], 0, 0)[:f.parts]
	f.unpack(w, s)
}

func (f pairForm) write(_ *table, g *page, i int, w, h uint64, s *rule.State) {
	packed, fits := f.pack(s)
	if !fits {
		panic("memstore: a state cannot be packed although fits accepted it")
	}
	hash, word := f.at(g, i)
	owner := w & f.owner
	if hash.Load() != h {
		// A request that read the old key's word must not be able to swap it for one of the new key's.
		owner = (w + f.nextOwner) & f.owner
		hash.Store(h)
	}
	word.Store(packed | owner)
}

func (f pairForm) copy(g *page, i int, w uint64, to *page, j int) {
	from, _ := f.at(g, i)
	hash, word := f.at(to, j)
	hash.Store(from.Load())
	word.Store(w)
}

func (wordSlots) free(*table, *page, int, uint64) {}

func (f pairForm) fits(s *rule.State, now rule.Micros, cost int64) bool {
	return f.layout.fits(s, now, cost)
}
