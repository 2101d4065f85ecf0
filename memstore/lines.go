package memstore

import (
	"unsafe"

	"github.com/slidegate/slidegate/internal/quick"
	"github.com/slidegate/slidegate/rule"
)

// lineForm is how the states of one shape are laid out in slots of whole lines. The slot's first line is l; the others
// follow it in memory. All methods except take are called while the slot is busy for the caller, or before it is published.
// The fields of a stored state are in the control word that store returned: until that is in the slot, no other method may
// be called.
type lineForm interface {
	// lines returns how many lines a slot takes.
	lines() int
	// take decides a Take of cost for the key with hash h. quick.Undecided means that nothing was done, and that the slot
	// must be acquired to decide. After is RetryAfter of a refusal and NextAfter of an admission.
	//
	// With notes, it notes what it takes before that can be seen.
	take(l *line, h uint64, limit *rule.Limit, clock *clock, cost int64, notes *notes) (
		outcome quick.Outcome, remaining int64, after, resetAfter, at rule.Micros)
	// load copies the state to s. Counts and Slots are appended to s.Counts[:0] and s.Slots[:0].
	load(l *line, control uint64, s *rule.State)
	// store writes the state, or changes nothing and returns why. The fields of newControl belong to the state.
	store(l *line, control uint64, s *rule.State) (newControl uint64, ok storeResult)
	// clear resets the slot to a state never seen.
	clear(l *line, control uint64) (newControl uint64)
	// expires returns the same as rule.Limit.Expires.
	expires(l *line, control uint64) rule.Micros
	// weight returns approximately how many units are in use.
	weight(l *line, control uint64, now rule.Micros) int64
}

// storeResult is the result of storing a state.
type storeResult uint8

const (
	stored   storeResult = iota
	tooWide              // a count does not fit this form
	noMemory             // there is no memory for what does not fit in the slot
)

// nextVersion returns a control word with the next version.
func nextVersion(control uint64) uint64 {
	return control&^versionMask | (control+1)&versionMask
}

// change writes a word unless it is the same already: a read costs a tenth of a write. The caller has acquired the slot.
func (l *line) change(i int, word uint64) {
	if l[i].Load() != word {
		put(&l[i], word)
	}
}

// maxTries is how often a take retries a slot that others are changing, before it leaves the request to the slow path,
// where requests wait in turn.
const maxTries = 64

// fitter is implemented by line forms that cannot store every state.
type fitter interface {
	fits(s *rule.State, cost int64) bool
}

// linesForm is the form of a page whose slots take whole lines.
type linesForm struct {
	lineForm
	stride, n int
}

func newLinesForm(f lineForm) *linesForm {
	return &linesForm{lineForm: f, stride: f.lines(), n: pageLines / f.lines()}
}

func (f *linesForm) slots() int        { return f.n }
func (f *linesForm) reach() int        { return min(f.n, reachLines) }
func (f *linesForm) home(h uint64) int { return homeOf(h, f.n) }

// at returns the first line of slot i.
func (f *linesForm) at(g *page, i int) *line { return &g.lines[i*f.stride] }

// next returns the line i lines after l, in the same slot.
func (l *line) next(i uint) *line { return (*line)(unsafe.Add(unsafe.Pointer(l), i*lineBytes)) }

// findLine is find, optimized for speed.
func (f *linesForm) findLine(g *page, h uint64) *line {
	at := uint(homeOf(h, f.n))
	for range reachLines {
		l := &g.lines[at*uint(f.stride)]
		switch l[hashWord].Load() {
		case h:
			return l
		case unused:
			return nil
		}
		if at++; at == uint(f.n) {
			at = 0
		}
	}
	return nil
}

func (f *linesForm) hash(g *page, i int) uint64 { return f.at(g, i)[hashWord].Load() }

func (f *linesForm) peek(g *page, i int) uint64 { return f.at(g, i)[controlWord].Load() }

func (f *linesForm) claim(g *page, i int) uint64 {
	control, ok := f.at(g, i).acquire()
	if !ok {
		panic("memstore: a slot has moved, but its page is not dead")
	}
	return control
}

func (f *linesForm) tryClaim(g *page, i int) (uint64, bool) {
	word := &f.at(g, i)[controlWord]
	control := word.Load()
	return control, control&busy == 0 && word.CompareAndSwap(control, control|busy)
}

func (f *linesForm) release(g *page, i int, control uint64) { f.at(g, i).abandon(control) }
func (f *linesForm) bury(g *page, i int)                    { f.at(g, i)[controlWord].Store(moved) }

func (f *linesForm) expires(_ *table, g *page, i int, control uint64) rule.Micros {
	l := f.at(g, i)
	if l[hashWord].Load() == unused {
		return 0
	}
	return f.lineForm.expires(l, control)
}

func (f *linesForm) weight(_ *table, g *page, i int, control uint64, now rule.Micros) int64 {
	return f.lineForm.weight(f.at(g, i), control, now)
}

func (f *linesForm) load(_ *table, g *page, i int, control uint64, s *rule.State) {
	f.lineForm.load(f.at(g, i), control, s)
}

func (f *linesForm) write(_ *table, g *page, i int, control, h uint64, s *rule.State) {
	l := f.at(g, i)
	if l[hashWord].Load() != h {
		control = f.clear(l, control)
		l[hashWord].Store(h)
	}
	control, how := f.store(l, control, s)
	if how != stored {
		panic("memstore: a state cannot be stored although fits accepted it")
	}
	l.release(control)
}

func (f *linesForm) copy(g *page, i int, control uint64, to *page, j int) {
	from, slot := f.at(g, i), f.at(to, j)
	for n := range uint(f.stride) {
		a, b := from.next(n), slot.next(n)
		for w := range a {
			if n > 0 || w != controlWord {
				b[w].Store(a[w].Load())
			}
		}
	}
	slot[controlWord].Store(control)
}

func (f *linesForm) free(_ *table, g *page, i int, control uint64) { f.clear(f.at(g, i), control) }

func (f *linesForm) fits(s *rule.State, _ rule.Micros, cost int64) bool {
	narrow, ok := f.lineForm.(fitter)
	return !ok || narrow.fits(s, cost)
}
