package memstore

import (
	"math"

	"github.com/slidegate/slidegate/internal/quick"
	"github.com/slidegate/slidegate/rule"
)

// defaultForm is how the states of limits that name no algorithm are laid out, in slots of one line. A bit of the control word says
// whether the slot holds a log, which logForm lays out, or parts.
//
// The control word of parts contains the count of the current part and its position in a ring, so that a roll moves nothing and a charge
// within the current part is one compare-and-swap. The older counts are in one of four layouts. While few parts are used, they are pairs
// of a position and a count, oldest first, in the slot. Otherwise the ring has a cell per older part: in one line of the slab if they
// fit in a byte each, in two lines if they fit in 16 bits, and in nine with 64 bits.
//
//	word  0     1        2      3                                  4        5             6 7
//	      hash  control  start  sum (32 bits), first pair, pairs   pairs of 16 bits each
//	                            sum of the older counts            base     its lines     unused
//
// The sum is that of the older counts. With 64 bits the base is added to the current count of the control word.
type defaultForm struct {
	log      *logForm
	slab     *slab
	quick    quick.Parts
	part     rule.Micros
	segments uint // how many older counts there are
}

const (
	dfStart = 2 + iota
	dfSum
	dfBase
	dfLines // the number of the first line in the lower half, and of the second in the upper

	dfPairs     = dfBase // the first word with pairs
	dfMaxPairs  = 16
	dfCountBits = 9 // of a pair, below the position
	dfMaxPair   = int64(1)<<dfCountBits - 1
	dfPositions = uint(1)<<7 - 1 // positions of pairs wrap around here
	dfHeadAt    = 32
	dfUsedAt    = dfHeadAt + 4

	inParts      = uint64(1) << 62 // in the control word: the slot holds parts; a log uses the other fields itself
	dfKindAt     = fieldsAt
	dfPositionAt = dfKindAt + 2
	dfCurrentAt  = dfPositionAt + 7
	dfMaxCurrent = int64(1)<<(62-dfCurrentAt) - 1 // of what the control word contains
)

// dfKind is the layout of the older counts.
type dfKind uint

const (
	dfInPairs dfKind = iota
	dfBytes
	dfShorts
	dfWords
)

// dfCells describes the layouts with a ring of cells.
var dfCells = [4]struct {
	bits, perLine uint
	max           uint64
}{dfInPairs: {1, 1, 0}, dfBytes: {8, 60, math.MaxUint8}, dfShorts: {16, 30, math.MaxUint16}, dfWords: {64, 7, math.MaxUint64}}

func newDefaultForm(s *slab, limit *rule.Limit) *defaultForm {
	steps := quick.NewParts(limit)
	return &defaultForm{
		log: newLogForm(s, limit.Window), slab: s, quick: steps, part: steps.Part(), segments: uint(limit.Segments),
	}
}

func (f *defaultForm) lines() int { return 1 }

func kindOf(control uint64) dfKind { return dfKind(control >> dfKindAt & 3) }

func positionOf(control uint64) uint { return uint(control>>dfPositionAt) & dfPositions }

// currentOf returns the current count without the base.
func currentOf(control uint64) int64 { return int64(control&^inParts&^busy) >> dfCurrentAt }

// withParts returns the control word with the given numbers.
func withParts(control uint64, kind dfKind, position uint, current int64) uint64 {
	return control&versionMask | inParts | uint64(kind)<<dfKindAt | uint64(position)<<dfPositionAt | uint64(current)<<dfCurrentAt
}

// linesOf returns how many lines of the slab a layout takes.
func (f *defaultForm) linesOf(kind dfKind) int {
	if kind == dfInPairs {
		return 0
	}
	cells := &dfCells[kind]
	return int((f.segments + cells.perLine - 1) / cells.perLine)
}

// cell returns the word that contains a cell, and the cell's position in it.
func (f *defaultForm) cell(l *line, kind dfKind, i uint) (in *line, word, bit uint) {
	cells, numbers := &dfCells[kind], l[dfLines].Load()
	number := uint32(numbers)
	if i >= cells.perLine {
		i, number = i-cells.perLine, upper(numbers)
		for ; i >= cells.perLine; i -= cells.perLine {
			number = f.slab.follow(number)
		}
	}
	i *= cells.bits
	return f.slab.line(number), i / 64 % lineWords, i % 64
}

// count returns the older count in a cell.
func (f *defaultForm) count(l *line, kind dfKind, i uint) int64 {
	in, word, bit := f.cell(l, kind, i)
	return int64(in[word].Load() >> bit & dfCells[kind].max)
}

// set changes a cell, in a busy slot.
func (f *defaultForm) set(l *line, kind dfKind, i uint, count int64) {
	in, word, bit := f.cell(l, kind, i)
	in.change(int(word), in[word].Load()&^(dfCells[kind].max<<bit)|uint64(count)<<bit)
}

// pair returns the i-th pair of the ring of pairs.
func (l *line) pair(i uint) (position uint, count int64) {
	word := l[dfPairs+i/4%4].Load() >> (i % 4 * 16)
	return uint(word>>dfCountBits) & dfPositions, int64(word) & dfMaxPair
}

// pairsOf returns the index of the oldest pair and the number of pairs.
func (l *line) pairsOf() (head, used uint) {
	word := l[dfSum].Load()
	return uint(word>>dfHeadAt) % dfMaxPairs, uint(word>>dfUsedAt) & 31
}

// older returns the sum of the older counts.
func (l *line) older(kind dfKind) int64 {
	if kind == dfInPairs {
		return int64(uint32(l[dfSum].Load()))
	}
	return int64(l[dfSum].Load())
}

// current returns the current count.
func (l *line) current(control uint64) int64 {
	if kindOf(control) == dfWords {
		return currentOf(control) + int64(l[dfBase].Load())
	}
	return currentOf(control)
}

// counts fills in the older counts, by their ages.
func (f *defaultForm) counts(l *line, control uint64, counts []int64) {
	clear(counts)
	counts[0] = l.current(control)
	kind, position := kindOf(control), positionOf(control)
	if kind == dfInPairs {
		head, used := l.pairsOf()
		for i := range used {
			p, count := l.pair(head + i)
			counts[(position-p)&dfPositions] = count
		}
		return
	}
	for age := uint(1); age <= f.segments; age++ {
		counts[age] = f.count(l, kind, (position+f.segments-age)%f.segments)
	}
}

// smallest returns the layout for counts that takes the least memory.
func (f *defaultForm) smallest(counts []int64) dfKind {
	used, largest := 0, int64(0)
	for _, count := range counts[1:] {
		largest = max(largest, count)
		if count > 0 {
			used++
		}
	}
	switch {
	case counts[0] > dfMaxCurrent || largest > math.MaxUint16:
		return dfWords
	case used <= dfMaxPairs && largest <= dfMaxPair:
		return dfInPairs
	case largest <= math.MaxUint8:
		return dfBytes
	default:
		return dfShorts
	}
}

// write makes a busy slot hold parts in a layout for them. Without memory it changes nothing and returns false; if must is set, there
// always is some.
func (f *defaultForm) write(l *line, control uint64, start rule.Micros, counts []int64, must bool) (newControl uint64, ok bool) {
	kind := f.smallest(counts)
	had, want := 0, f.linesOf(kind)
	if control&inParts != 0 {
		had = f.linesOf(kindOf(control))
	}
	first, ok := f.slab.resize(l[hashWord].Load(), uint32(l[dfLines].Load()), had, want, must)
	if !ok {
		return 0, false
	}
	if control&inParts == 0 {
		f.log.clear(l, control)
	}
	l.change(dfStart, uint64(start))
	if kind == dfInPairs {
		return f.writePairs(l, control, counts), true
	}
	second := uint32(0)
	if want > 1 {
		second = f.slab.follow(first)
	}
	l.change(dfLines, uint64(first)|uint64(second)<<32)
	return f.writeCells(l, control, kind, first, counts), true
}

func (f *defaultForm) writePairs(l *line, control uint64, counts []int64) uint64 {
	var words [dfMaxPairs / 4]uint64
	used, sum := uint(0), int64(0)
	for age := f.segments; age > 0; age-- {
		if count := counts[age]; count > 0 {
			words[used/4] |= (uint64(f.segments-age)<<dfCountBits | uint64(count)) << (used % 4 * 16)
			sum += count
			used++
		}
	}
	for i, word := range words {
		l.change(dfPairs+i, word)
	}
	l.change(dfSum, uint64(sum)|uint64(used)<<dfUsedAt)
	return withParts(control, dfInPairs, f.segments, counts[0])
}

func (f *defaultForm) writeCells(l *line, control uint64, kind dfKind, first uint32, counts []int64) uint64 {
	for n, number := f.linesOf(kind), first; n > 0; n, number = n-1, f.slab.follow(number) {
		x := f.slab.line(number)
		for i := range chainWord {
			x.change(i, 0)
		}
		x.change(chainWord, x[chainWord].Load()>>32<<32)
	}
	sum := int64(0)
	for age := uint(1); age <= f.segments; age++ {
		if count := counts[age]; count > 0 {
			f.set(l, kind, f.segments-age, count)
			sum += count
		}
	}
	l.change(dfSum, uint64(sum))
	base, current := int64(0), counts[0]
	if kind == dfWords {
		base, current = current, 0
	}
	l.change(dfBase, uint64(base))
	return withParts(control, kind, 0, current)
}

// load implements lineForm.
func (f *defaultForm) load(l *line, control uint64, s *rule.State) {
	if control&inParts == 0 {
		f.log.load(l, control, s)
		return
	}
	clearState(s)
	s.Start = rule.Micros(l[dfStart].Load())
	s.Counts = append(s.Counts[:0], make([]int64, f.segments+1)...)
	f.counts(l, control, s.Counts)
}

// store implements lineForm.
func (f *defaultForm) store(l *line, control uint64, s *rule.State) (newControl uint64, ok storeResult) {
	if s.InParts() {
		if control, enough := f.write(l, control, s.Start, s.Counts, true); enough {
			return control, stored
		}
		return 0, noMemory
	}
	if control&inParts != 0 {
		control = f.clear(l, control)
	}
	return f.log.store(l, control, s)
}

// clear implements lineForm.
func (f *defaultForm) clear(l *line, control uint64) (newControl uint64) {
	if control&inParts == 0 {
		return f.log.clear(l, control)
	}
	f.slab.put(uint32(l[dfLines].Load()), f.linesOf(kindOf(control)))
	return control &^ fieldsMask
}

// expires implements lineForm.
func (f *defaultForm) expires(l *line, control uint64) rule.Micros {
	if control&inParts == 0 {
		return f.log.expires(l, control)
	}
	return rule.Micros(l[dfStart].Load()) + rule.Micros(f.segments+1)*f.part
}

// weight implements lineForm.
func (f *defaultForm) weight(l *line, control uint64, now rule.Micros) int64 {
	switch {
	case control&inParts == 0:
		return f.log.weight(l, control, now)
	case f.expires(l, control) <= now:
		return 0
	}
	return l.older(kindOf(control)) + l.current(control)
}
