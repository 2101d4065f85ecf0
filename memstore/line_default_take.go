package memstore

import (
	"math/bits"
	"time"

	"github.com/slidegate/slidegate/internal/quick"
	"github.com/slidegate/slidegate/rule"
)

// take implements lineForm. A charge that makes a log parts, or parts a log, is left to the slow path.
func (f *defaultForm) take(l *line, h uint64, limit *rule.Limit, clock *clock, cost int64, notes *notes) (
	outcome quick.Outcome, remaining int64, after, resetAfter, at rule.Micros,
) {
	if l[controlWord].Load()&inParts == 0 {
		if limit.Quota > rule.DefaultLog || limit.Lease || limit.CountRefused {
			return quick.Undecided, 0, 0, 0, 0
		}
		return f.log.take(l, h, limit, clock, cost, notes)
	}
	for range maxTries {
		control := l[controlWord].Load()
		if control&(busy|inParts) != inParts {
			if control == moved || control&busy == 0 {
				break
			}
			stepBack()
			continue
		}
		start, kind := rule.Micros(l[dfStart].Load()), kindOf(control)
		current, older := l.current(control), l.older(kind)
		if l[hashWord].Load() != h {
			break
		}
		var now rule.Micros // read after control, whose writer had read the clock before; this is clock.read, inlined
		if clock.now == nil {
			now = clock.wallBase + rule.Micros(time.Since(clock.base).Microseconds())
		} else {
			now = clock.readGiven()
		}
		at = now
		r := rolled{current: current}
		if uint64(now-start) >= uint64(f.part) {
			var ok bool
			if start, at, r.shift, ok = f.quick.Roll(limit, start, now); !ok {
				break
			}
			if r.shift > 0 {
				older, r.gone = f.roll(l, control, kind, current, older, r.shift)
				current = 0
			}
		}
		r.start, r.older = start, older
		if current+older == 0 && (at != now || cost > 0 && !limit.StartsInParts(cost)) { // like a key never seen
			break
		}
		remaining := limit.Quota - current - older - cost
		if remaining < 0 || cost == 0 {
			if cost > limit.Quota || limit.CountRefused && cost > 0 {
				break
			}
			if remaining < 0 && (r.shift == 0 && older == 0 || r.shift > 0 && older == r.current) { // all units are in one part
				outcome, after = quick.Refused, f.goneAt(&r, r.shift)-now
				resetAfter = after
			} else {
				outcome, after, resetAfter = f.refuse(l, control, &r, limit.Quota, remaining, cost, now)
			}
			if l[controlWord].Load() != control {
				continue
			}
			return outcome, max(0, remaining+cost), after, resetAfter, at
		}
		if remaining == 0 {
			after = f.freeAt(l, control, &r, 1) - now
		}
		resetAfter = f.goneAt(&r, 0) - now
		if r.shift == 0 && currentOf(control)+cost <= dfMaxCurrent {
			if notes.swap(&l[controlWord], control, control|busy, nextVersion(control+uint64(cost)<<dfCurrentAt), h, cost, now) {
				return quick.Admitted, remaining, after, resetAfter, at
			}
		} else if l[controlWord].CompareAndSwap(control, control|busy) {
			next, ok := f.charge(l, control, &r, cost)
			if !ok {
				l.abandon(control)
				break
			}
			if notes != nil {
				notes.take(h, cost, now, true)
			}
			l.release(next)
			return quick.Admitted, remaining, after, resetAfter, at
		}
		stepBack()
		after = 0
	}
	return quick.Undecided, 0, 0, 0, 0
}

// rolled describes a slot of parts as of a later part.
type rolled struct {
	start   rule.Micros // of the part that is current now
	shift   uint        // how many parts later that is
	gone    uint        // how many of the oldest pairs have left the window
	current int64       // the count that was current before the roll
	older   int64       // the sum of the older counts after the roll
}

// roll returns the sum of the older counts shift parts later, and how many pairs have left the window.
func (f *defaultForm) roll(l *line, control uint64, kind dfKind, current, older int64, shift uint) (newOlder int64, gone uint) {
	if shift > f.segments {
		return 0, 0
	}
	position := positionOf(control)
	switch kind {
	case dfInPairs:
		for head, used := l.pairsOf(); gone < used; gone++ {
			p, count := l.pair(head + gone)
			if (position-p)&dfPositions+shift <= f.segments {
				break
			}
			older -= count
		}
	case dfBytes:
		for x := f.slab.line(uint32(l[dfLines].Load())); shift > 0; shift-- {
			older -= int64(x[position/8%lineWords].Load() >> (position % 8 * 8) & 0xff)
			position = f.next(position)
		}
	default:
		for ; shift > 0; shift-- {
			older -= f.count(l, kind, position)
			position = f.next(position)
		}
	}
	return older + current, gone
}

// next returns the position after another in a ring of cells.
func (f *defaultForm) next(position uint) uint {
	if position++; position >= f.segments {
		return 0
	}
	return position
}

// goneAt returns when a part of an age leaves the window.
func (f *defaultForm) goneAt(r *rolled, age uint) rule.Micros {
	return r.start + rule.Micros(f.segments+1-age)*f.part
}

// refuse returns the answer to a take that changes nothing.
func (f *defaultForm) refuse(l *line, control uint64, r *rolled, quota, remaining, cost int64, now rule.Micros) (
	outcome quick.Outcome, after, resetAfter rule.Micros,
) {
	outcome = quick.Admitted
	switch {
	case remaining < 0:
		outcome = quick.Refused
		after = f.freeAt(l, control, r, -remaining) - now
	case remaining == 0:
		after = f.freeAt(l, control, r, 1) - now
	}
	switch {
	case remaining+cost >= quota:
	case r.shift == 0 && r.current > 0:
		resetAfter = f.goneAt(r, 0) - now
	default:
		resetAfter = f.goneAt(r, f.newestAge(l, control, r)) - now
	}
	return outcome, after, resetAfter
}

// freeAt returns when so many units have left the window.
func (f *defaultForm) freeAt(l *line, control uint64, r *rolled, units int64) rule.Micros {
	if units > r.older {
		return f.goneAt(r, 0)
	}
	position, kind := positionOf(control), kindOf(control)
	if kind == dfInPairs {
		head, used := l.pairsOf()
		for i := r.gone; i < used; i++ {
			p, count := l.pair(head + i)
			if units -= count; units <= 0 {
				return f.goneAt(r, (position-p)&dfPositions+r.shift)
			}
		}
		return f.goneAt(r, r.shift)
	}
	if position += r.shift; position >= f.segments {
		position -= f.segments
	}
	for age := f.segments; age > r.shift; age-- {
		if units -= f.count(l, kind, position); units <= 0 {
			return f.goneAt(r, age)
		}
		position = f.next(position)
	}
	return f.goneAt(r, r.shift)
}

// newestAge returns the age of the newest part in which a unit counts; there is one, but not in a part that has just begun.
func (f *defaultForm) newestAge(l *line, control uint64, r *rolled) uint {
	if r.current > 0 {
		return r.shift
	}
	position, kind := positionOf(control), kindOf(control)
	if kind == dfInPairs {
		head, used := l.pairsOf()
		p, _ := l.pair(head + used - 1)
		return (position-p)&dfPositions + r.shift
	}
	for age := r.shift + 1; age < f.segments; age++ {
		if position == 0 {
			position = f.segments
		}
		position--
		if f.count(l, kind, position) > 0 {
			return age
		}
	}
	return f.segments
}

// charge rolls a busy slot and adds cost. Without memory it changes nothing and returns false.
func (f *defaultForm) charge(l *line, control uint64, r *rolled, cost int64) (newControl uint64, ok bool) {
	kind, position := kindOf(control), positionOf(control)+r.shift
	fits := uint64(r.current) <= dfCells[kind].max && (cost <= dfMaxCurrent || kind == dfWords)
	switch {
	case r.shift > f.segments && cost <= dfMaxCurrent:
		f.slab.put(uint32(l[dfLines].Load()), f.linesOf(kind))
		l.change(dfStart, uint64(r.start))
		l.change(dfSum, 0)
		return withParts(control, dfInPairs, 0, cost), true
	case r.shift > 0 && kind == dfInPairs && r.current <= dfMaxPair && cost <= dfMaxCurrent:
		head, used := l.pairsOf()
		if used -= r.gone; used < dfMaxPairs || r.current == 0 {
			f.chargePairs(l, r, positionOf(control), head+r.gone, used)
			return withParts(control, dfInPairs, position&dfPositions, cost), true
		}
	case r.shift == 0 && kind == dfWords:
		l.change(dfBase, uint64(r.current+cost))
		return withParts(control, kind, position, 0), true
	case r.shift > 0 && kind != dfInPairs && fits && (position < f.segments || !f.mayShrink(l, kind)):
		if position >= f.segments {
			position -= f.segments
		}
		f.rollCells(l, kind, positionOf(control), r)
		l.change(dfStart, uint64(r.start))
		l.change(dfSum, uint64(r.older))
		if kind == dfWords {
			l.change(dfBase, uint64(cost))
			cost = 0
		}
		return withParts(control, kind, position, cost), true
	}
	return f.recast(l, control, r, cost)
}

// chargePairs adds the pair of the part that was current.
func (f *defaultForm) chargePairs(l *line, r *rolled, position, head, used uint) {
	if r.current > 0 {
		i := (head + used) % dfMaxPairs
		word, bit := dfPairs+i/4, i%4*16
		l.change(int(word), l[word].Load()&^(0xffff<<bit)|(uint64(position)<<dfCountBits|uint64(r.current))<<bit)
		used++
	}
	l.change(dfStart, uint64(r.start))
	l.change(dfSum, uint64(r.older)|uint64(head%dfMaxPairs)<<dfHeadAt|uint64(used)<<dfUsedAt)
}

// rollCells puts the count that was current into a ring of cells, and empties those of the parts after it.
func (f *defaultForm) rollCells(l *line, kind dfKind, position uint, r *rolled) {
	count, x := r.current, f.slab.line(uint32(l[dfLines].Load()))
	for range r.shift {
		if kind == dfBytes {
			word, bit := position/8%lineWords, position%8*8
			x.change(int(word), x[word].Load()&^(0xff<<bit)|uint64(count)<<bit)
		} else {
			f.set(l, kind, position, count)
		}
		count, position = 0, f.next(position)
	}
}

// mayShrink reports whether a ring of cells may have become so empty that another layout takes less memory. It is asked once in a
// window, when the ring starts over.
func (f *defaultForm) mayShrink(l *line, kind dfKind) bool {
	if kind != dfBytes {
		return l.older(kind) <= int64(dfCells[kind-1].max)*int64(f.segments)
	}
	x, used := f.slab.line(uint32(l[dfLines].Load())), 0
	for i := range x {
		word := x[i].Load()
		if i == chainWord {
			word = uint64(uint32(word))
		}
		const low = 0x7f7f7f7f7f7f7f7f // a byte is used if a bit is set in it
		used += bits.OnesCount64(((word & low) + low | word) &^ low)
	}
	return used < dfMaxPairs
}

// recast is charge if the layout may have to change.
func (f *defaultForm) recast(l *line, control uint64, r *rolled, cost int64) (newControl uint64, ok bool) {
	var before, after [maxDefaultCounts]int64
	n := f.segments + 1
	f.counts(l, control, before[:n])
	copy(after[min(r.shift, n):n], before[:])
	after[0] += cost
	return f.write(l, control, r.start, after[:n], false)
}

// maxDefaultCounts is more than a limit that names no algorithm has.
const maxDefaultCounts = rule.MaxSegments + 1
