package memstore

import (
	"runtime"
	"sync"
	"sync/atomic"
	"unsafe"

	"github.com/slidegate/slidegate/rule"
)

// line is a cache line: 64 bytes of words that are read and written atomically, because those who only read take no lock.
type line [lineWords]atomic.Uint64

const (
	lineWords = 8
	lineBytes = 8 * lineWords
	pageBytes = 16384
	pageLines = pageBytes/lineBytes - 1 // the header takes one
)

// page is the unit in which the store takes memory for keys: a header and 255 lines, in which slots lie side by side. It has no
// pointer in it, so the garbage collector does not look inside, and it fills an allocation exactly, which begins at a multiple
// of its size.
type page struct {
	pageHeader
	_     [lineBytes - unsafe.Sizeof(pageHeader{})]byte
	lines [pageLines]line
}

// pageHeader is what is guarded by the lock of a page, but for order and second, which never change.
type pageHeader struct {
	mu     sync.Mutex // held to give a slot to another key; several are taken in their order
	dead   bool       // its keys have moved: look the hash up again
	second bool       // its slots have the second form of its table
	depth  uint8      // how many bits of their hashes its keys have in common
	order  uint64

	fullUntil rule.Micros // until then no slot is free, and no key of it expires
}

// pageOrder numbers pages as they are made.
var pageOrder atomic.Uint64

func newPage(depth uint8, second bool) *page {
	g := new(page)
	placed(unsafe.Pointer(g), pageBytes)
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

// A slot of one line or more begins with two words that all such slots have in common: the hash of its key and a control word.
//
// The control word is what makes the rest of the slot one thing. Who changes the slot sets the busy bit by a compare-and-swap,
// writes, and stores the word with a higher version. Who only reads loads the control word, the words that it wants, and the
// control word again: if that is the same, all of them belong together. The hash is read in between too, since the slot may be
// given to another key.
const (
	hashWord    = 0
	controlWord = 1

	busy        = uint64(1) << 63
	moved       = ^uint64(0) // the slot's page is dead: it stays busy for ever
	versionMask = uint64(1)<<32 - 1
	fieldsAt    = 32 // 31 bits, up to the busy bit, in which a form keeps small numbers
)

// acquire makes the slot that begins with l busy for the caller and returns the control word, without the busy bit. It is false if the
// slot has moved.
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
			runtime.Gosched() // who has it may be waiting for the processor
		}
	}
}

// release ends what acquire began, after a change. The fields are those of control, which the caller may have changed.
func (l *line) release(control uint64) {
	publish(&l[controlWord], raised(control))
}

// abandon ends what acquire began when nothing was changed.
func (l *line) abandon(control uint64) { publish(&l[controlWord], control) }
