package memstore

// logChain is the chain of a log while it is being changed: units are taken from its first line and added to its last.
type logChain struct {
	f           *logForm
	first, last uint32 // 0 if there is none
	offset      int    // how many units of the first line were removed
	count       int    // units in all lines
	fill        int    // the end of the units in the last line
	oldest      uint32 // the first of the lines to return, which come before first
	spent       int    // how many lines to return
}

// open sets c to the chain of a slot.
func (c *logChain) open(f *logForm, l *line, u logFields) {
	c.f, c.fill = f, f.perLine
	if u.hasChain() {
		c.first, c.last = upper(l[chainHeadWord].Load()), uint32(l[chainTailWord].Load())
		c.oldest = c.first
		c.offset, c.count = u.offset(), u.total()-u.front()-u.back()
		c.fill = int(uint32(c.offset+c.count-1)%uint32(f.perLine)) + 1
	}
}

// linesOf returns how many lines n units take.
func (f *logForm) linesOf(n int) int { return (n + f.perLine - 1) / f.perLine }

// advance removes the n oldest units. The last line stays, even if no unit is left in it.
func (c *logChain) advance(n int) {
	c.offset += n
	c.count -= n
	for c.offset >= c.f.perLine && c.first != c.last {
		c.offset -= c.f.perLine
		c.first = c.f.slab.follow(c.first)
		c.spent++
	}
}

// reserve makes space for n more units, or returns false and leaves the chain unchanged.
func (c *logChain) reserve(h uint64, n int) bool {
	missing := n - (c.f.perLine - c.fill)
	if missing <= 0 {
		return true
	}
	more, ok := c.f.slab.get(h, c.f.linesOf(missing), false)
	switch {
	case !ok:
		return false
	case c.first == 0:
		c.first, c.last, c.oldest, c.fill = more, more, more, 0
	default:
		c.f.slab.link(c.last, more)
	}
	return true
}

// renew empties the chain, with lines for n units, at least one, or returns false and leaves the chain unchanged.
func (c *logChain) renew(h uint64, n int) bool {
	had, want := 0, c.f.linesOf(n)
	if c.first != 0 {
		had = c.f.linesOf(c.offset + c.count)
	}
	first, ok := c.f.slab.resize(h, c.first, had, want, true)
	if !ok {
		return false
	}
	c.first, c.oldest = first, first
	c.last, c.offset, c.count, c.fill = c.first, 0, 0, 0
	return true
}

// push adds units for which there is space.
func (c *logChain) push(units []uint64) {
	for len(units) > 0 {
		if c.fill == c.f.perLine {
			c.last, c.fill = c.f.slab.follow(c.last), 0
		}
		n := min(len(units), c.f.perLine-c.fill)
		setStamps(c.f.slab.line(c.last), 0, c.f.width, uint(c.fill), units[:n])
		c.fill += n
		c.count += n
		units = units[n:]
	}
}

// pushSame adds n units with the same time.
func (c *logChain) pushSame(unit uint64, n int) {
	var units [lineBits / narrow]uint64
	for i := range units {
		units[i] = unit
	}
	for ; n > len(units); n -= len(units) {
		c.push(units[:])
	}
	c.push(units[:n])
}

// pop removes the oldest units, up to n of those in the first line, and appends them to to.
func (c *logChain) pop(to []uint64, n int) []uint64 {
	n = min(n, c.count, c.f.perLine-c.offset)
	if n == 0 {
		return to
	}
	l := c.f.slab.line(c.first)
	for i := range n {
		to = append(to, stamp(l, 0, c.f.width, uint(c.offset+i)))
	}
	c.advance(n)
	return to
}

// unpop restores up to n of the last removed units, and returns how many: those of the first line are still there.
func (c *logChain) unpop(n int) int {
	n = min(n, c.offset)
	c.offset -= n
	c.count += n
	return n
}

// settle returns empty lines to the slab.
func (c *logChain) settle() {
	c.advance(0)
	if c.count == 0 && c.first != 0 {
		c.spent++
	}
	if c.spent > 0 {
		c.f.slab.put(c.oldest, c.spent)
	}
}
