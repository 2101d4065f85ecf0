package rule

import (
	"encoding/binary"
	"math"
	"slices"
	"sort"
	"unsafe"
)

// Log holds the times of a sliding log's units. The zero value is empty.
//
// The newest time is kept in full. The older ones are in a ring that grows as it fills, each as the low 4 bytes of its
// time, or the low 6 if the window is longer than 71 minutes. That is enough to distinguish them: every charge first drops
// expired units, so an older unit is always less than a window behind the newest.
//
// The ring is one block of bytes, a ringHeader followed by the times. Only its address is kept, which takes 8 bytes instead
// of the 24 of a slice.
type Log struct {
	last Micros // the newest time plus logBase; 0 if there is none
	ring *byte  // nil until there is a second unit
}

type ringHeader struct{ capacity, oldest, count, width uint16 }

// logBase keeps last above 0 for every valid time: moving a state back can make its times as early as a window before the
// epoch.
const logBase = MaxWindow + 1

const headerSize = int(unsafe.Sizeof(ringHeader{}))

// logOf returns a log of the given times, which must not decrease. It keeps the newest times, at most so many, without those
// that had expired at the time of the newest.
func logOf(times []Micros, window Micros, most int64) Log {
	var g Log
	for _, t := range times[max(0, len(times)-int(most)):] {
		if t > times[len(times)-1]-window {
			g.add(t, 1, window, most)
		}
	}
	return g
}

// times returns the times of all units, the oldest first.
func (g *Log) times() []Micros {
	times := make([]Micros, g.Len())
	for i := range times {
		times[i] = g.Time(i)
	}
	return times
}

// Time returns the time of unit i; unit 0 is the oldest.
func (g *Log) Time(i int) Micros { return g.fromNewest(int64(g.Len() - 1 - i)) }

// Restart makes g empty, with capacity for n units of a window. It reuses g's memory if that is large enough.
func (g *Log) Restart(n int, window Micros) {
	g.clear()
	if n > 1 {
		g.reserve(n-1, window, MaxLogQuota)
	}
}

// Append adds a unit, which must not be before the newest, and must be less than a window later than the oldest. There must
// be capacity for it.
func (g *Log) Append(at Micros) {
	if !g.empty() {
		g.push(g.newest())
	}
	g.last = at + logBase
}

// clear makes g empty and keeps its memory.
func (g *Log) clear() {
	if g.last = 0; g.ring != nil {
		h := g.header()
		h.oldest, h.count = 0, 0
	}
}

func (g *Log) empty() bool         { return g.last == 0 }
func (g *Log) newest() Micros      { return g.last - logBase }
func (g *Log) header() *ringHeader { return (*ringHeader)(unsafe.Pointer(g.ring)) }

func (g *Log) older() int {
	if g.ring == nil {
		return 0
	}
	return int(g.header().count)
}

// Len returns how many units are held.
func (g *Log) Len() int {
	if g.empty() {
		return 0
	}
	return 1 + g.older()
}

// slot returns the bytes of the i-th older unit, counted from the oldest.
func (g *Log) slot(i int) []byte {
	h := g.header()
	width, capacity := int(h.width), int(h.capacity)
	at := int(h.oldest) + i
	if at >= capacity {
		at -= capacity
	}
	at = headerSize + at*width
	return unsafe.Slice(g.ring, headerSize+capacity*width)[at : at+width]
}

// fromNewest returns the time of the unit that has i newer ones.
func (g *Log) fromNewest(i int64) Micros {
	if i == 0 {
		return g.newest()
	}
	b := g.slot(g.older() - int(i))
	low, mask := uint64(binary.LittleEndian.Uint32(b)), uint64(math.MaxUint32)
	if len(b) == 6 {
		low |= uint64(binary.LittleEndian.Uint16(b[4:])) << 32
		mask = 1<<48 - 1
	}
	return g.newest() - Micros((uint64(g.newest())-low)&mask)
}

// liveAfter returns how many units are later than t.
func (g *Log) liveAfter(t Micros) int64 {
	n := g.Len()
	if n == 0 || g.newest() <= t {
		return 0
	}
	if g.fromNewest(int64(n-1)) > t {
		return int64(n)
	}
	return int64(sort.Search(n, func(i int) bool { return g.fromNewest(int64(i)) <= t }))
}

// keep drops all but the n newest units.
func (g *Log) keep(n int64) {
	drop := g.Len() - int(n)
	if drop <= 0 {
		return
	}
	if g.ring != nil {
		h := g.header()
		gone := min(drop, int(h.count))
		h.oldest = uint16((int(h.oldest) + gone) % int(h.capacity))
		h.count -= uint16(gone)
	}
	if n == 0 {
		g.last = 0
	}
}

// add appends n units with time at, which is not before the newest, and keeps the newest ones, at most so many; n is not more
// than that. Every existing unit must be less than a window older than at.
func (g *Log) add(at Micros, n int64, window Micros, most int64) {
	if n == 0 {
		return
	}
	g.keep(most - n)
	if !g.empty() {
		g.reserve(g.older()+int(n), window, most)
		g.push(g.newest())
	} else if n > 1 {
		g.reserve(int(n)-1, window, most)
	}
	for range n - 1 {
		g.push(at)
	}
	g.last = at + logBase
}

func (g *Log) push(t Micros) {
	b := g.slot(g.older())
	binary.LittleEndian.PutUint32(b, uint32(t))
	if len(b) == 6 {
		binary.LittleEndian.PutUint16(b[4:], uint16(t>>32))
	}
	g.header().count++
}

// reserve makes space for n older units. It grows in steps of an eighth, or a sixteenth if a time takes 6 bytes: a unit
// must not cost more than 8 bytes, including what the allocator rounds up.
func (g *Log) reserve(n int, window Micros, most int64) {
	width, spare := 4, n/8
	if window > math.MaxUint32 {
		width, spare = 6, n/16
	}
	if g.ring != nil && int(g.header().capacity) >= n && int(g.header().width) == width { // the memory may come from another window
		return
	}
	older := g.older()
	size := headerSize + max(n, min(n+spare, int(most)-1))*width
	block := append([]byte(nil), make([]byte, size)...) // with the capacity that the allocator rounds up to
	block = block[:cap(block)]
	grown := Log{last: g.last, ring: unsafe.SliceData(block)}
	*grown.header() = ringHeader{
		capacity: uint16(min((len(block)-headerSize)/width, math.MaxUint16)),
		count:    uint16(older), width: uint16(width),
	}
	for i := range older {
		copy(grown.slot(i), g.slot(i))
	}
	*g = grown
}

// remove removes n units with time at, of which there must be at least n.
func (g *Log) remove(at Micros, n int64, window Micros) {
	times := g.times()
	first, _ := slices.BinarySearch(times, at)
	*g = logOf(slices.Delete(times, first, first+int(n)), window, MaxLogQuota)
}

// moveBack makes every time earlier by the same amount.
func (g *Log) moveBack(by, window Micros) {
	times := g.times()
	for i := range times {
		times[i] -= by
	}
	*g = logOf(times, window, MaxLogQuota)
}

func (g Log) clone() Log {
	if g.ring != nil {
		h := g.header()
		block := slices.Clone(unsafe.Slice(g.ring, headerSize+int(h.capacity)*int(h.width)))
		g.ring = unsafe.SliceData(block)
	}
	return g
}
