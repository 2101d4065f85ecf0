package memstore

import (
	"math/bits"
	"sync"
	"sync/atomic"
	"unsafe"
)

// slab provides lines for states that do not fit into their slot. A line has a number instead of an address, so neither the
// slab nor the slots contain anything for the garbage collector to follow. The lines of one state are a chain: each ends
// with the number of the next.
//
// The slab allocates pages of 64 lines and releases a page when all of its lines are free. Lines are taken and returned
// under a lock per shard; line needs no lock.
type slab struct {
	take   func(bytes int64, must bool) bool // requests memory, which is always granted if must is set; called with a shard's lock held
	give   func(bytes int64)                 // releases memory
	shards [slabShards]slabShard
}

const (
	slabShards    = 8
	slabPageLines = 64
	slabPageBytes = slabPageLines * lineBytes

	// chainWord is the word of a line whose upper half is the number of the next line in its chain.
	chainWord = lineWords - 1
	// lineBits is how many bits of a line the number of the next one leaves.
	lineBits = lineWords*64 - 32
)

type slabPage [slabPageLines]line

// slabShard holds the pages whose number modulo slabShards is its own. Within the shard they are numbered from 1.
type slabShard struct {
	pages   atomic.Pointer[[]atomic.Pointer[slabPage]] // as long as notes
	mu      sync.Mutex                                 // guards the rest
	notes   []slabNote
	usable  uint32   // the first page in the list of pages with free lines; 0 if there is none
	numbers []uint32 // numbers of pages that were released
	highest uint32   // the highest page number so far

	_ [lineBytes]byte // keeps the lock off the cache lines that others read
}

// slabNote is a shard's record of a page.
type slabNote struct {
	free           uint64 // a bit for each line
	next, previous uint32 // in the list of pages with free lines
}

// noteBytes is what a shard needs per page that it can have.
const noteBytes = int64(unsafe.Sizeof(slabNote{}) + unsafe.Sizeof(atomic.Pointer[slabPage]{}) + 4)

// maxPages is how many pages a shard can have before the numbers of lines run out.
const maxPages = 1 << 32 / slabPageLines / slabShards

func newSlab(take func(bytes int64, must bool) bool, give func(bytes int64)) *slab {
	return &slab{take: take, give: give}
}

// noLine is read in place of a line that does not exist.
var noLine line

// line returns the line with a number. A reader without a lock may request a line that has been freed, or a number that was
// never valid: it reads what is there, or zeros, and finds out afterwards that its slot has changed.
func (s *slab) line(number uint32) *line {
	page := number / slabPageLines
	pages := s.shards[page%slabShards].pages.Load()
	if pages == nil || int(page/slabShards) >= len(*pages) {
		return &noLine
	}
	p := (*pages)[page/slabShards].Load()
	if p == nil {
		return &noLine
	}
	return &p[number%slabPageLines]
}

// follow returns the number of the next line in the chain.
func (s *slab) follow(number uint32) uint32 { return upper(s.line(number)[chainWord].Load()) }

// link makes next the line after the given one.
func (s *slab) link(number, next uint32) {
	word := &s.line(number)[chainWord]
	put(word, withUpper(word.Load(), next))
}

func upper(word uint64) uint32                 { return uint32(word >> 32) }
func withUpper(word uint64, up uint32) uint64  { return word&(1<<32-1) | uint64(up)<<32 }
func withLower(word uint64, low uint32) uint64 { return word>>32<<32 | uint64(low) }

// get returns the first of a chain of n free lines, which the caller then owns, or false if there is no memory for all
// of them. If must is set, there always is. The shard is chosen by the hash h; the others are tried only when it has
// nothing left.
func (s *slab) get(h uint64, n int, must bool) (first uint32, ok bool) {
	got := 0
	for i := range uint64(slabShards) {
		var more int
		first, more = s.getFrom(uint32((h+i)%slabShards), first, n-got, must)
		if got += more; got == n {
			return first, true
		}
	}
	s.put(first, got)
	return 0, false
}

// getFrom puts up to n free lines of a shard before the first line of a chain, and returns the new first line and how many it
// found.
func (s *slab) getFrom(shard, first uint32, n int, must bool) (newFirst uint32, got int) {
	g := &s.shards[shard]
	g.mu.Lock()
	defer g.mu.Unlock()
	for ; got < n; got++ {
		number, ok := s.getLocked(g, shard, must)
		if !ok {
			break
		}
		s.link(number, first)
		first = number
	}
	return first, got
}

func (s *slab) getLocked(g *slabShard, shard uint32, must bool) (number uint32, ok bool) {
	if g.usable == 0 && !s.newPageLocked(g, must) {
		return 0, false
	}
	page := g.usable
	note := &g.notes[page]
	i := uint32(bits.TrailingZeros64(note.free))
	note.free &= note.free - 1
	if note.free == 0 {
		g.unlist(page)
	}
	return (page*slabShards+shard)*slabPageLines + i, true
}

// put returns the first n lines of a chain.
func (s *slab) put(first uint32, n int) {
	var g *slabShard
	defer func() {
		if g != nil {
			g.mu.Unlock()
		}
	}()
	for range n {
		page := first / slabPageLines
		if shard := &s.shards[page%slabShards]; shard != g {
			if g != nil {
				g.mu.Unlock()
			}
			g = shard
			g.mu.Lock()
		}
		next := s.follow(first)
		s.putLocked(g, page/slabShards, uint64(1)<<(first%slabPageLines))
		first = next
	}
}

// resize turns a chain of had lines into one of want lines with undefined contents, and returns its first line. If there is
// no memory, it leaves the chain unchanged and returns false; see get about must.
func (s *slab) resize(h uint64, first uint32, had, want int, must bool) (newFirst uint32, ok bool) {
	switch {
	case want > had:
		more, ok := s.get(h, want-had, must)
		if !ok || had == 0 {
			return more, ok
		}
		s.link(s.nth(first, had-1), more)
	case want == 0:
		s.put(first, had)
		return 0, true
	case want < had:
		s.put(s.nth(first, want), had-want)
	}
	return first, true
}

// nth returns the i-th line of a chain, counted from 0.
func (s *slab) nth(first uint32, i int) uint32 {
	for range i {
		first = s.follow(first)
	}
	return first
}

func (s *slab) putLocked(g *slabShard, page uint32, bit uint64) {
	note := &g.notes[page]
	if note.free&bit != 0 {
		panic("memstore: a line was returned twice")
	}
	if note.free == 0 {
		g.list(page)
	}
	note.free |= bit
	// The last page with free lines is kept, so that a state which needs a line from time to time does not need a new page
	// each time.
	if note.free == 1<<slabPageLines-1 && (note.next != 0 || note.previous != 0) {
		s.dropPageLocked(g, page)
	}
}

// list puts a page at the front of the list of pages with free lines. The page has just one free line, so it fills up
// before pages that have many, and those have a chance to become entirely free.
func (g *slabShard) list(page uint32) {
	g.notes[page].next, g.notes[page].previous = g.usable, 0
	if g.usable != 0 {
		g.notes[g.usable].previous = page
	}
	g.usable = page
}

func (g *slabShard) unlist(page uint32) {
	note := &g.notes[page]
	if note.previous != 0 {
		g.notes[note.previous].next = note.next
	} else {
		g.usable = note.next
	}
	if note.next != 0 {
		g.notes[note.next].previous = note.previous
	}
}

func (s *slab) newPageLocked(g *slabShard, must bool) bool {
	if len(g.numbers) == 0 && int(g.highest)+1 >= len(g.notes) && !s.growLocked(g, must) || !s.take(slabPageBytes, must) {
		return false
	}
	var page uint32
	if last := len(g.numbers) - 1; last >= 0 {
		page, g.numbers = g.numbers[last], g.numbers[:last]
	} else {
		g.highest++
		page = g.highest
	}
	p := new(slabPage)
	recordAllocation(unsafe.Pointer(p), slabPageBytes)
	(*g.pages.Load())[page].Store(p)
	g.notes[page].free = 1<<slabPageLines - 1
	g.list(page)
	return true
}

// growLocked makes space for notes about twice as many pages.
func (s *slab) growLocked(g *slabShard, must bool) bool {
	had, want := len(g.notes), max(8, 2*len(g.notes))
	if want > maxPages || !s.take(int64(want-had)*noteBytes, must) {
		return false
	}
	pages := make([]atomic.Pointer[slabPage], want)
	for i := range had {
		pages[i].Store((*g.pages.Load())[i].Load())
	}
	notes := make([]slabNote, want)
	copy(notes, g.notes)
	g.notes = notes
	g.numbers = append(make([]uint32, 0, want), g.numbers...)
	g.pages.Store(&pages)
	return true
}

func (s *slab) dropPageLocked(g *slabShard, page uint32) {
	g.unlist(page)
	g.notes[page] = slabNote{}
	(*g.pages.Load())[page].Store(nil)
	g.numbers = append(g.numbers, page)
	s.give(slabPageBytes)
}

// trim releases the pages that put keeps for the next get.
func (s *slab) trim() {
	for i := range s.shards {
		s.trimShard(&s.shards[i])
	}
}

func (s *slab) trimShard(g *slabShard) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for page := g.usable; page != 0; {
		next := g.notes[page].next
		if g.notes[page].free == 1<<slabPageLines-1 {
			s.dropPageLocked(g, page)
		}
		page = next
	}
	if len(g.notes) > 0 && len(g.numbers) == int(g.highest) {
		g.pages.Store(nil)
		s.give(int64(len(g.notes)) * noteBytes)
		g.notes, g.numbers, g.highest = nil, nil, 0
	}
}
