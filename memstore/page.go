package memstore

import (
	"runtime"
	"sync"
	"sync/atomic"
	"unsafe"

	"github.com/slidegate/slidegate/rule"
)

// line is a cache line: 64 bytes of words that are read and written atomically, because readers take no lock.
type line [lineWords]atomic.Uint64

const (
	lineWords = 8
	lineBytes = 8 * lineWords
	pageBytes = 16384
	pageLines = pageBytes/lineBytes - 1 // the header takes one line
)

// page is the unit in which the store allocates memory for keys: a header and 255 lines, which contain the slots. It
// contains no pointers, so the garbage collector does not scan it, and it fills an allocation exactly, which begins at a
// multiple of its size.
type page struct {
	pageHeader
	_     [lineBytes - unsafe.Sizeof(pageHeader{})]byte
	lines [pageLines]line
}

// pageHeader is guarded by the lock of its page, except order, second and held, which never change once it is published.
type pageHeader struct {
	mu     sync.Mutex // held to give a slot to another key; several pages are locked in the order of their numbers
	dead   bool       // its keys have moved: look up the hash again
	second bool       // its slots have the table's second form
	held   bool       // units of its keys may be held; see holds.go
	depth  uint8      // how many leading bits the hashes of its keys share
	order  uint64

	fullUntil rule.Micros // until then no slot is free, and no key expires
}

// pageOrder numbers pages in the order of their creation.
var pageOrder atomic.Uint64

func newPage(depth uint8, second bool) *page {
	g := new(page)
	recordAllocation(unsafe.Pointer(g), pageBytes)
	g.depth, g.second, g.order = depth, second, pageOrder.Add(1)
	return g
}

// lockBoth locks two pages in their order.
func lockBoth(a, b *page) {
	if a.order > b.order {
		a, b = b, a
	}
	a.mu.Lock()
	b.mu.Lock()
}

// Every slot of one line or more begins with two words: the hash of its key and a control word.
//
// The control word makes the slot consistent. A writer sets the busy bit with a compare-and-swap, writes, and stores the
// word with a higher version. A reader loads the control word, the words that it needs, and the control word again: if that
// is unchanged, all of them belong together. The hash is read in between too, since the slot may be given to another key.
const (
	hashWord    = 0
	controlWord = 1

	busy        = uint64(1) << 63
	moved       = ^uint64(0) // the slot's page is dead: it stays busy forever
	versionMask = uint64(1)<<32 - 1
	fieldsAt    = 32 // 31 bits below the busy bit, in which a form keeps small numbers
)

// acquire makes the slot that begins with l busy for the caller and returns the control word, without the busy bit. It
// returns false if the slot has moved.
func (l *line) acquire() (control uint64, ok bool) {
	for spins := 1; ; spins++ {
		control = l[controlWord].Load()
		switch {
		case control == moved:
			return 0, false
		case control&busy == 0 && l[controlWord].CompareAndSwap(control, control|busy):
			return control, true
		}
		if spins%64 == 0 {
			runtime.Gosched() // its holder may be waiting for the processor
		}
	}
}

// release ends acquire after a change. The fields are those of control, which the caller may have changed.
func (l *line) release(control uint64) {
	publish(&l[controlWord], nextVersion(control))
}

// abandon ends acquire without a change.
func (l *line) abandon(control uint64) { publish(&l[controlWord], control) }
