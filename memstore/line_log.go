package memstore

import (
	"math"

	"github.com/slidegate/slidegate/internal/quick"
	"github.com/slidegate/slidegate/rule"
)

// logForm is how sliding logs are laid out in slots of one line.
//
// Each unit is the low 32 bits of its time, or 48 if the window is longer than 71 minutes. As in rule.Log, that is enough,
// because every charge drops expired units, so no unit is a window or more older than the newest. The upper half of the
// last word contains the newest time's bits above the low bits.
//
// Up to 11 units (7 wide ones) are in the slot, in a ring. Further units are in a chain of lines from the slab, and the
// ring is shorter by the two numbers of the chain's first and last line: the oldest units are in the front of the ring, the
// newest in its back, and all others in between, in the chain. Charges take from the front and add to the back, so the
// chain is touched only when the front is used up or the ring is full. Neither front nor back is ever empty while there is
// a chain.
//
//	word  0     1        2 ... 7
//	      hash  control  ring (352 bits), epoch of the newest (32 bits)                      without a chain
//	                     ring (288 bits), first line (32), last line (32), epoch (32)        with one
type logForm struct {
	slab    *slab
	window  rule.Micros
	width   uint   // bits of a unit
	low     uint64 // its mask
	plain   int    // how many units the ring holds without a chain
	chained int    // how many units the ring holds with a chain
	perLine int    // how many units a line of a chain holds
	keep    int    // how many units stay in front when a ring gets a chain
	refill  int    // how many units move to an empty front: more would leave less space in back
}

const (
	ringWord      = 2
	chainHeadWord = 6 // upper half; the ring ends in the lower
	chainTailWord = 7 // lower half; the epoch is in the upper
)

func newLogForm(s *slab, window rule.Micros) *logForm {
	width := uint(narrow)
	if window >= math.MaxUint32 {
		width = wide
	}
	chained := int(288 / width)
	return &logForm{
		slab: s, window: window, width: width, low: 1<<width - 1,
		plain: int(352 / width), chained: chained, perLine: int(lineBits / width),
		keep: chained / 2, refill: chained - 1,
	}
}

// logFields is the control word of a log, for the small numbers it contains.
type logFields uint64

const (
	logTotalAt  = fieldsAt
	logStartAt  = logTotalAt + 14
	logFrontAt  = logStartAt + 4
	logBackAt   = logFrontAt + 4
	logOffsetAt = logBackAt + 4
	fieldsMask  = (busy - 1) &^ versionMask
)

func (u logFields) total() int     { return int(u >> logTotalAt & (1<<14 - 1)) } // units in all
func (u logFields) start() int     { return int(u >> logStartAt & 15) }          // where the ring starts
func (u logFields) front() int     { return int(u >> logFrontAt & 15) }          // units in front; all units if there is no chain
func (u logFields) back() int      { return int(u >> logBackAt & 15) }           // units in back
func (u logFields) offset() int    { return int(u >> logOffsetAt & 15) }         // units of the chain's first line that were removed
func (u logFields) hasChain() bool { return u.total() != u.front() }

// with returns the control word with the given numbers.
func (u logFields) with(total, start, front, back, offset int) uint64 {
	return uint64(u)&^fieldsMask | uint64(total)<<logTotalAt | uint64(start)<<logStartAt | uint64(front)<<logFrontAt |
		uint64(back)<<logBackAt | uint64(offset)<<logOffsetAt
}

func (f *logForm) lines() int { return 1 }

// size returns how many units the ring holds.
func (f *logForm) size(u logFields) int {
	if u.hasChain() {
		return f.chained
	}
	return f.plain
}

// position returns the position of the i-th unit in the ring.
func (f *logForm) position(u logFields, i int) uint {
	if i += u.start(); i >= f.size(u) {
		i -= f.size(u)
	}
	return uint(i)
}

// copyRing appends units i to end-1 of the ring to to.
func (f *logForm) copyRing(to []uint64, l *line, u logFields, i, end int) []uint64 {
	position, size := f.position(u, i), uint(f.size(u))
	for ; i < end; i++ {
		to = append(to, stamp(l, ringWord, f.width, position))
		if position++; position == size {
			position = 0
		}
	}
	return to
}

// newest returns the time of the newest unit; there must be one.
func (f *logForm) newest(l *line, u logFields) rule.Micros {
	i, size := u.start()+u.front()+u.back()-1, f.size(u)
	if i >= size {
		i -= size
	}
	var low uint64
	if f.width == narrow {
		low = narrowStamp(l, ringWord, uint(i))
	} else {
		low = stamp(l, ringWord, wide, uint(i))
	}
	return rule.Micros(int64(int32(upper(l[lineWords-1].Load())))<<f.width | int64(low))
}

// time returns the time of a unit, given the newest time.
func (f *logForm) time(newest rule.Micros, low uint64) rule.Micros {
	return newest - rule.Micros((uint64(newest)-low)&f.low)
}

// take implements lineForm.
func (f *logForm) take(l *line, h uint64, limit *rule.Limit, clock *clock, cost int64, notes *notes) (
	outcome quick.Outcome, remaining int64, after, resetAfter, at rule.Micros,
) {
	for range maxTries {
		control := l[controlWord].Load()
		if control&(busy|inParts) != 0 {
			if control == moved || control&busy == 0 {
				break
			}
			stepBack()
			continue
		}
		if l[hashWord].Load() != h || cost > limit.Quota {
			break
		}
		now := clock.read() // after the control word, whose writer had read the clock before
		u := logFields(control)
		at, newest, oldest := now, now, now // oldest: of the units that count
		total := u.total()
		drop := 0
		if total > 0 {
			newest = f.newest(l, u)
			if newest > now {
				if newest > now+f.window {
					break
				}
				at = newest
			}
			drop, oldest = f.expired(l, u, newest, at-f.window)
		}
		live := int64(total - drop)
		room := limit.Quota - live // negative if the quota was larger before
		blocking := oldest         // the unit that must expire before the cost fits or, after an admission, before one unit fits
		charged := cost
		switch {
		case cost <= room:
			outcome, remaining = quick.Admitted, room-cost
			if live == 0 {
				blocking = at
			}
		case limit.CountRefused && cost > 0:
			outcome, remaining = quick.Refused, 0
			drop = total - int(max(limit.Quota, live)-cost) // the cost replaces the oldest units
			if blocking = at; cost <= limit.Quota-cost {
				blocking = f.unit(l, u, newest, total-1-int(limit.Quota-2*cost))
			}
		default:
			outcome, remaining, charged = quick.Refused, max(0, room), 0
			if cost-room > 1 {
				blocking = f.unit(l, u, newest, drop+int(cost-room)-1)
			}
		}
		if charged == 0 {
			if l[controlWord].Load() != control {
				continue
			}
		} else {
			if !l[controlWord].CompareAndSwap(control, control|busy) {
				stepBack()
				continue
			}
			next, ok := f.charge(l, h, u, drop, at, int(charged))
			if !ok {
				l.abandon(control)
				break
			}
			if notes != nil {
				notes.take(h, cost, now, outcome == quick.Admitted)
			}
			l.release(next)
			newest = at
		}
		if remaining < limit.Quota {
			resetAfter = newest + f.window - now
		}
		if outcome == quick.Refused || remaining == 0 {
			after = blocking + f.window - now
		}
		return outcome, remaining, after, resetAfter, at
	}
	return quick.Undecided, 0, 0, 0, 0
}

// expired returns how many of the oldest units are not later than cutoff, and the time of the next one.
func (f *logForm) expired(l *line, u logFields, newest, cutoff rule.Micros) (n int, oldest rule.Micros) {
	if newest <= cutoff {
		return u.total(), 0
	}
	size := f.size(u)
	position := u.start()
	for i := range u.front() {
		var low uint64
		if f.width == narrow {
			low = narrowStamp(l, ringWord, uint(position))
		} else {
			low = stamp(l, ringWord, wide, uint(position))
		}
		if t := f.time(newest, low); t > cutoff {
			return i, t
		}
		if position++; position == size {
			position = 0
		}
	}
	n = f.expiredBehindFront(l, u, newest, cutoff)
	return n, f.unit(l, u, newest, n)
}

// expiredBehindFront is expired for a log whose front units have all expired.
func (f *logForm) expiredBehindFront(l *line, u logFields, newest, cutoff rule.Micros) int {
	chain := u.total() - u.back()
	at := upper(l[chainHeadWord].Load())
	for i, offset := u.front(), u.offset(); i < chain; {
		n := min(chain-i, f.perLine-offset)
		x := f.slab.line(at)
		if f.time(newest, stamp(x, 0, f.width, uint(offset+n-1))) > cutoff { // not all of this line
			for range n - 1 {
				if f.time(newest, stamp(x, 0, f.width, uint(offset))) > cutoff {
					break
				}
				offset, i = offset+1, i+1
			}
			return i
		}
		i, offset = i+n, 0
		at = f.slab.follow(at)
	}
	for i := range u.back() {
		if f.time(newest, stamp(l, ringWord, f.width, f.position(u, u.front()+i))) > cutoff {
			return chain + i
		}
	}
	return u.total()
}

// unit returns the time of the i-th unit, counted from the oldest.
func (f *logForm) unit(l *line, u logFields, newest rule.Micros, i int) rule.Micros {
	switch {
	case i < u.front():
		return f.time(newest, stamp(l, ringWord, f.width, f.position(u, i)))
	case i >= u.total()-u.back():
		return f.time(newest, stamp(l, ringWord, f.width, f.position(u, i-u.total()+u.back()+u.front())))
	}
	at := upper(l[chainHeadWord].Load())
	for i += u.offset() - u.front(); i >= f.perLine; i -= f.perLine {
		at = f.slab.follow(at)
	}
	return f.time(newest, stamp(f.slab.line(at), 0, f.width, uint(i)))
}

// charge drops the oldest units and adds n with time at, in a busy slot. It returns the new control word, or false if
// there is no memory; nothing has changed then.
func (f *logForm) charge(l *line, h uint64, u logFields, drop int, at rule.Micros, n int) (uint64, bool) {
	front, back, size := u.front()-drop, u.back(), f.plain
	if u.hasChain() {
		back += n
		if size = f.chained; front <= 0 {
			return f.reshape(l, h, u, drop, at, n)
		}
	} else {
		front += n
	}
	if front+back > size {
		return f.reshape(l, h, u, drop, at, n)
	}
	start := u.start() + drop
	if start >= size {
		start -= size
	}
	end := start + front + back - n
	if end >= size {
		end -= size
	}
	for range n {
		if f.width == narrow {
			setNarrowStamp(l, ringWord, uint(end), uint32(at))
		} else {
			setStamp(l, ringWord, wide, uint(end), uint64(at)&f.low)
		}
		if end++; end == size {
			end = 0
		}
	}
	f.setEpoch(l, at)
	return u.with(u.total()+n-drop, start, front, back, u.offset()), true
}

func (f *logForm) setEpoch(l *line, newest rule.Micros) {
	last := &l[lineWords-1]
	if word, epoch := last.Load(), uint32(newest>>f.width); upper(word) != epoch {
		put(last, withUpper(word, epoch))
	}
}

// reshape is charge if the chain is involved.
func (f *logForm) reshape(l *line, h uint64, u logFields, drop int, at rule.Micros, n int) (uint64, bool) {
	var c logChain
	c.open(f, l, u)
	var space [20]uint64
	ring := f.copyRing(space[:0], l, u, drop, u.front())
	drop = max(0, drop-u.front())
	gone := min(drop, c.count)
	c.advance(gone)
	refilled := len(ring) == 0
	if refilled {
		ring = c.pop(ring, f.refill)
	}
	front := len(ring)
	ring = f.copyRing(ring, l, u, u.front()+drop-gone, u.front()+u.back())
	unit := uint64(at) & f.low
	if c.count == 0 && len(ring)+n <= f.plain {
		for range n {
			ring = append(ring, unit)
		}
		return f.writeRing(l, u, ring, len(ring), at, &c), true
	}
	if c.count > 0 && len(ring)+n <= f.chained {
		for range n {
			ring = append(ring, unit)
		}
		return f.writeRing(l, u, ring, front, at, &c), true
	}
	// A few units stay in front, and the newest in back. All others go to the chain.
	if c.count == 0 {
		front = f.keep
		for len(ring) < front {
			ring = append(ring, unit)
			n--
		}
	}
	if !c.reserve(h, len(ring)-front+n-1) {
		return 0, false
	}
	back := ring[front:]
	if !refilled && front > f.keep { // units arrive faster than they expire: make space for them
		front -= c.unpop(front - f.keep)
	}
	c.push(back)
	if n > 1 {
		c.pushSame(unit, n-1)
	}
	return f.writeRing(l, u, append(ring[:front], unit), front, at, &c), true
}

// writeRing writes a ring with front units in front, and the rest of the chain, and returns unused lines to the slab.
func (f *logForm) writeRing(l *line, u logFields, ring []uint64, front int, newest rule.Micros, c *logChain) uint64 {
	c.settle()
	setStamps(l, ringWord, f.width, 0, ring)
	f.setEpoch(l, newest)
	offset := 0
	if c.count > 0 {
		offset = c.offset
		if word := &l[chainHeadWord]; upper(word.Load()) != c.first {
			put(word, withUpper(word.Load(), c.first))
		}
		if word := &l[chainTailWord]; uint32(word.Load()) != c.last {
			put(word, withLower(word.Load(), c.last))
		}
	}
	return u.with(len(ring)+c.count, 0, front, len(ring)-front, offset)
}

// load implements lineForm.
func (f *logForm) load(l *line, control uint64, s *rule.State) {
	clearState(s)
	u := logFields(control)
	if u.total() == 0 {
		return
	}
	newest := f.newest(l, u)
	var memory [maxInRing]uint64
	add := func(units []uint64) {
		for _, v := range units {
			s.Log.Append(f.time(newest, v))
		}
	}
	s.Log.Restart(u.total(), f.window)
	add(f.copyRing(memory[:0], l, u, 0, u.front()))
	var c logChain
	for c.open(f, l, u); c.count > 0; {
		add(c.pop(memory[:0], f.perLine))
	}
	add(f.copyRing(memory[:0], l, u, u.front(), u.front()+u.back()))
}

// maxInRing is more units than a ring or a line can hold.
const maxInRing = 20

// store implements lineForm.
func (f *logForm) store(l *line, control uint64, s *rule.State) (newControl uint64, ok storeResult) {
	n := s.Log.Len()
	if n == 0 {
		return f.clear(l, control), stored
	}
	newest := s.Log.Time(n - 1)
	first := 0
	for s.Log.Time(first) <= newest-f.window { // it has expired under any limit
		first++
	}
	var memory [maxInRing]uint64
	low := func(from, to int) []uint64 {
		units := memory[:0]
		for i := from; i < to; i++ {
			units = append(units, uint64(s.Log.Time(i))&f.low)
		}
		return units
	}
	u := logFields(control)
	var c logChain
	c.open(f, l, u)
	if n-first <= f.plain {
		c.advance(c.count)
		return f.writeRing(l, u, low(first, n), n-first, newest, &c), stored
	}
	back := first + f.keep
	if !c.renew(l[hashWord].Load(), n-1-back) {
		return 0, noMemory
	}
	for at := back; at < n-1; at += f.perLine {
		c.push(low(at, min(at+f.perLine, n-1)))
	}
	ring := append(low(first, back), uint64(newest)&f.low)
	return f.writeRing(l, u, ring, f.keep, newest, &c), stored
}

// clear resets the slot to a key never seen.
func (f *logForm) clear(l *line, control uint64) (newControl uint64) {
	u := logFields(control)
	var c logChain
	c.open(f, l, u)
	c.advance(c.count)
	c.settle()
	return control &^ fieldsMask
}

// expires implements lineForm.
func (f *logForm) expires(l *line, control uint64) rule.Micros {
	u := logFields(control)
	if u.total() == 0 {
		return 0
	}
	return f.newest(l, u) + f.window
}

// weight implements lineForm. All units in the chain count.
func (f *logForm) weight(l *line, control uint64, now rule.Micros) int64 {
	u := logFields(control)
	if u.total() == 0 {
		return 0
	}
	newest := f.newest(l, u)
	if newest <= now-f.window {
		return 0
	}
	n := u.total()
	for i := 0; i < u.front() && f.time(newest, stamp(l, ringWord, f.width, f.position(u, i))) <= now-f.window; i++ {
		n--
	}
	return int64(n)
}
