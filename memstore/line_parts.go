package memstore

import (
	"math"
	"sync/atomic"
	"time"

	"github.com/slidegate/slidegate/internal/quick"
	"github.com/slidegate/slidegate/rule"
)

// partsForm holds sliding windows of several segments. Their counts are in a ring, and the control word contains the
// position of the current count, so that a roll moves nothing. The control word also contains the current count, and
// everything else that decides is in the first line: a charge within the current part is one compare-and-swap of that word,
// and `whole` is one comparison.
//
// There are two layouts. A count of the narrow layout has 16 bits. The wide layout has 64 bits per count, for states that
// do not fit; its control word contains what was added to the current count since that was last written.
type partsForm struct {
	limit    rule.Limit // of the shape: its quota is meaningless
	quick    quick.Parts
	part     rule.Micros
	parts    uint // number of counts
	wide     bool
	ring     uint   // index of the word at which the ring begins
	maxAdded uint64 // the largest current count, or addition to it, in the control word
}

// The words of a slot, after hash and control. A slot of zeros is an absent state.
const (
	partsStart  = 2 + iota // start of the current part, relative to rule.Absent
	partsOlder             // the sum of all counts but the current one; in the narrow layout, the oldest count is above it
	partsRing              // start of the ring in the narrow layout
	partsOldest = iota + 1
	partsCurrent
	partsWideRing

	partsOldestAt   = 32
	partsPositionAt = fieldsAt
	partsPositions  = uint64(1)<<7 - 1
	partsAddedAt    = partsPositionAt + 7
	partsAdded      = uint64(1)<<24 - 1
	partsNarrow     = uint64(math.MaxUint16) // the largest count of the narrow layout
	partsFields     = partsPositions<<partsPositionAt | partsAdded<<partsAddedAt
)

func newPartsForm(limit *rule.Limit, wide bool) *partsForm {
	quick := quick.NewParts(limit)
	f := &partsForm{limit: *limit, quick: quick, part: quick.Part(), parts: uint(limit.Parts()), ring: partsRing, maxAdded: partsNarrow}
	if wide {
		f.wide, f.ring, f.maxAdded = true, partsWideRing, partsAdded
	}
	return f
}

func (f *partsForm) lines() int { return int(f.ring+f.ringWords()+lineWords-1) / lineWords }

func (f *partsForm) ringWords() uint {
	if f.wide {
		return f.parts
	}
	return (f.parts + 3) / 4
}

// word returns word i of the ring.
func (f *partsForm) word(l *line, i uint) *atomic.Uint64 {
	i += f.ring
	return &l.next(i / lineWords)[i%lineWords]
}

// count returns the count at a position other than the current one, whose count is not in the ring.
func (f *partsForm) count(l *line, position uint) int64 {
	if f.wide {
		return int64(f.word(l, position).Load())
	}
	return int64(f.word(l, position/4).Load() >> (position % 4 * 16) & partsNarrow)
}

// set changes the count at a position.
func (f *partsForm) set(l *line, position uint, count int64) {
	i, shift, mask := position, uint(0), ^uint64(0)
	if !f.wide {
		i, shift, mask = position/4, position%4*16, partsNarrow
	}
	word := f.word(l, i)
	old := word.Load()
	if next := old&^(mask<<shift) | uint64(count)<<shift; next != old {
		put(word, next)
	}
}

// after returns the position n after another; n is at most the number of parts.
func (f *partsForm) after(position, n uint) uint {
	if position += n; position >= f.parts {
		position -= f.parts
	}
	return position
}

// look returns what decides during the current part.
func (f *partsForm) look(l *line, control uint64) (position uint, current, older, oldest int64) {
	position = uint(control >> partsPositionAt & partsPositions)
	current, word := int64(control>>partsAddedAt&partsAdded), l[partsOlder].Load()
	if f.wide {
		return position, current + int64(l[partsCurrent].Load()), int64(word), int64(l[partsOldest].Load())
	}
	return position, current, int64(word & (1<<partsOldestAt - 1)), int64(word >> partsOldestAt)
}

// roll returns the new older and oldest if the counts are shifted.
func (f *partsForm) roll(l *line, position uint, current, older int64, shift uint) (newOlder, newOldest int64) {
	if shift == f.parts {
		return 0, 0
	}
	for range shift {
		position = f.after(position, 1)
		older -= f.count(l, position)
	}
	if shift == f.parts-1 {
		return older + current, current
	}
	return older + current, f.count(l, f.after(position, 1))
}

func (f *partsForm) take(l *line, h uint64, limit *rule.Limit, clock *clock, cost int64, notes *notes) (
	outcome quick.Outcome, remaining int64, after, resetAfter, at rule.Micros,
) {
	for range maxTries {
		control := l[controlWord].Load()
		if control&busy != 0 {
			if control == moved {
				break
			}
			stepBack()
			continue
		}
		start := rule.Absent ^ rule.Micros(l[partsStart].Load())
		position, current, older, oldest := f.look(l, control)
		if l[hashWord].Load() != h {
			break
		}
		var now rule.Micros // read after control, whose writer had read the clock before; this is clock.read, inlined
		if clock.now == nil {
			now = clock.wallBase + rule.Micros(time.Since(clock.base).Microseconds())
		} else {
			now = clock.readGiven()
		}
		at, first, shift := now, current, uint(0)
		if uint64(now-start) >= uint64(f.part) {
			var ok bool
			if start, at, shift, ok = f.quick.Roll(limit, start, now); !ok {
				break
			}
			if shift > 0 {
				older, oldest = f.roll(l, position, current, older, shift)
				first = 0
			}
		}
		remaining := limit.Quota - first - older - cost
		if oldest > 0 && limit.Overlap != rule.OverlapWhole {
			remaining = f.quick.Room(limit, first+older-oldest, oldest, start+f.part-at) - cost
		}
		if remaining < 0 || cost == 0 {
			if cost > limit.Quota || limit.CountRefused && cost > 0 {
				break
			}
			r := partsRolled{position, shift, start, current, 0, older}
			outcome, after, resetAfter = f.refuse(l, limit, &r, remaining, cost)
			if l[controlWord].Load() != control {
				continue
			}
			return outcome, max(0, remaining+cost), max(0, after-now), max(0, resetAfter-now), at
		}
		if remaining == 0 {
			r := partsRolled{position, shift, start, current, cost, older}
			after = f.freeAt(l, limit, &r, 1) - now
		}
		resetAfter = f.goneAt(limit, start+rule.Micros(f.parts-1)*f.part, first+cost) - now
		added := control >> partsAddedAt & partsAdded
		switch {
		case !f.wide && uint64(first+cost) > partsNarrow:
			return quick.Undecided, 0, 0, 0, 0
		case shift == 0 && added+uint64(cost) <= f.maxAdded:
			if notes.swap(&l[controlWord], control, control|busy, nextVersion(control+uint64(cost)<<partsAddedAt), h, cost, now) {
				return quick.Admitted, remaining, after, resetAfter, at
			}
		case l[controlWord].CompareAndSwap(control, control|busy):
			next := f.charge(l, control, start, shift, position, current, older, oldest, cost)
			if notes != nil {
				notes.take(h, cost, now, true)
			}
			l.release(next)
			return quick.Admitted, remaining, after, resetAfter, at
		}
		stepBack()
	}
	return quick.Undecided, 0, 0, 0, 0
}

// charge rolls to the part that begins at start and adds cost to it.
func (f *partsForm) charge(
	l *line, control uint64, start rule.Micros, shift, position uint, current, older, oldest, cost int64,
) (newControl uint64) {
	switch {
	case shift == f.parts:
		for i := range f.ringWords() {
			if word := f.word(l, i); word.Load() != 0 {
				put(word, 0)
			}
		}
	case shift > 0:
		f.set(l, position, current)
		for range shift {
			position = f.after(position, 1)
			f.set(l, position, 0)
		}
	default:
		cost += current
	}
	l.change(partsStart, uint64(start^rule.Absent))
	return f.finish(l, control, position, cost, older, oldest)
}

// finish writes what is stored in addition to the older counts.
func (f *partsForm) finish(l *line, control uint64, position uint, current, older, oldest int64) (newControl uint64) {
	newControl = control&^partsFields | uint64(position)<<partsPositionAt
	if f.wide {
		l.change(partsOlder, uint64(older))
		l.change(partsOldest, uint64(oldest))
		l.change(partsCurrent, uint64(current))
		return newControl
	}
	l.change(partsOlder, uint64(older)|uint64(oldest)<<partsOldestAt)
	return newControl | uint64(current)<<partsAddedAt
}

// partsRolled is a state after a roll that has not been written yet.
type partsRolled struct {
	position uint        // position of the current part before the roll
	shift    uint        // by how many parts the state is rolled
	start    rule.Micros // start of the part that is now current
	current  int64       // the previously current count, now shift parts old
	cost     int64       // units added to the current part
	older    int64       // the sum of all counts without cost, and without current if shift is 0
}

// refuse returns the answer to a take that changes nothing. The times are absolute, or 0.
func (f *partsForm) refuse(l *line, limit *rule.Limit, r *partsRolled, remaining, cost int64) (
	outcome quick.Outcome, after, resetAfter rule.Micros,
) {
	outcome = quick.Admitted
	switch {
	case remaining < 0:
		outcome = quick.Refused
		if room := limit.Quota - cost; r.shift > 0 || room >= r.current {
			after = f.freeAt(l, limit, r, cost)
			break
		}
		// Usually the current part must fade. This is freeAt without the search.
		last := r.start + rule.Micros(f.parts-1)*f.part
		var ok bool
		if after, ok = f.quick.FreeAt(limit, last, r.current, limit.Quota-cost); !ok {
			after = last + f.part
		}
	case remaining == 0:
		after = f.freeAt(l, limit, r, 1)
	}
	switch {
	case remaining+cost >= limit.Quota:
	case r.current > 0 && limit.Overlap != rule.OverlapDown: // resetAt, inlined
		resetAfter = r.start + rule.Micros(f.parts-r.shift)*f.part
	default:
		resetAfter = f.resetAt(l, limit, r)
	}
	return outcome, after, resetAfter
}

// freeAt returns the first time at which n fits. It is the rule's waitWindow, over the ring.
func (f *partsForm) freeAt(l *line, limit *rule.Limit, r *partsRolled, n int64) rule.Micros {
	start, position, current, older := r.start, f.after(r.position, r.shift), r.current, r.older
	switch r.shift {
	case 0:
		current += r.cost
	case f.parts:
		current = 0
	default:
		older -= current
	}
	age := f.parts - 1 // age of the oldest part, in parts
	room := limit.Quota - n - current - older
	if r.shift > 0 {
		room -= r.cost
	}
	if r.shift < f.parts && room+older < 0 { // not before all of them have expired
		start += rule.Micros(age-r.shift) * f.part
		room += older
		age = r.shift
	}
	for ; ; age-- {
		var count int64
		position = f.after(position, 1)
		switch {
		case age > r.shift:
			count = f.count(l, position)
		case age == r.shift:
			count = current
		case age == 0:
			count = r.cost
		}
		room += count
		if at, ok := f.quick.FreeAt(limit, start, count, room); ok {
			return at
		}
		if start += f.part; age == 0 {
			return start
		}
	}
}

// goneAt returns when nothing is left of a count whose part is the oldest from start on, if there is nothing newer.
func (f *partsForm) goneAt(limit *rule.Limit, start rule.Micros, count int64) rule.Micros {
	if limit.Overlap == rule.OverlapDown {
		if at, ok := f.quick.FreeAt(limit, start, count, 0); ok {
			return at
		}
	}
	return start + f.part
}

// resetAt returns when nothing is left of a state in which something counts, if nothing is added.
func (f *partsForm) resetAt(l *line, limit *rule.Limit, r *partsRolled) rule.Micros {
	age, count := r.shift, r.current
	for position := r.position; count == 0 && age < f.parts-1; {
		position = f.after(position, f.parts-1)
		count = f.count(l, position)
		age++
	}
	return f.goneAt(limit, r.start+rule.Micros(f.parts-1-age)*f.part, count)
}

func (f *partsForm) load(l *line, control uint64, s *rule.State) {
	position, current, _, _ := f.look(l, control)
	s.Start = rule.Absent ^ rule.Micros(l[partsStart].Load())
	s.Counts = append(s.Counts[:0], current)
	for range f.parts - 1 {
		position = f.after(position, f.parts-1)
		s.Counts = append(s.Counts, f.count(l, position))
	}
}

func (f *partsForm) store(l *line, control uint64, s *rule.State) (newControl uint64, ok storeResult) {
	if len(s.Counts) == 0 || s.Start == rule.Absent {
		return f.clear(l, control), stored
	}
	if !f.fits(s, 0) {
		return control, tooWide
	}
	var older int64
	last := f.parts - 1
	for age, count := range s.Counts[1:] {
		f.set(l, last-1-uint(age), count)
		older += count
	}
	f.set(l, last, 0)
	l.change(partsStart, uint64(s.Start^rule.Absent))
	return f.finish(l, control, last, s.Counts[0], older, s.Counts[last]), stored
}

// fits reports whether the counts still fit after up to cost more units.
func (f *partsForm) fits(s *rule.State, cost int64) bool {
	if f.wide {
		return true
	}
	for i, count := range s.Counts {
		if i == 0 {
			count += cost
		}
		if uint64(count) > partsNarrow {
			return false
		}
	}
	return uint64(cost) <= partsNarrow
}

func (f *partsForm) clear(l *line, control uint64) (newControl uint64) {
	return f.charge(l, control, rule.Absent, f.parts, 0, 0, 0, 0, 0)
}

func (f *partsForm) expires(l *line, _ uint64) rule.Micros {
	start := rule.Absent ^ rule.Micros(l[partsStart].Load())
	if start == rule.Absent {
		return 0
	}
	return start + rule.Micros(f.parts)*f.part
}

func (f *partsForm) weight(l *line, control uint64, now rule.Micros) int64 {
	if f.expires(l, control) <= now {
		return 0
	}
	_, current, older, _ := f.look(l, control)
	return current + older
}
