package replay

import (
	"encoding/binary"

	"github.com/slidegate/slidegate/rule"
)

// tally is the exact count of the units of one key in the window that ends at the newest unit. Limits are measured
// against it, whatever their quota. The zero value is empty. Entries are a few bytes each: the time since the previous
// entry and, unless it is 1, the number of units. The oldest entry is held in fields, so most keys need no chunk.
type tally struct {
	sum    int64       // units in the window
	oldest rule.Micros // the time of the oldest entry
	newest rule.Micros // the time of the newest entry
	units  int64       // the units of the oldest entry; 0 if there are no entries
	head   uint32      // the chunk with the entries after the oldest, 0 if there are none
	tail   uint32
	read   uint8 // the offset of the next entry in head
}

// chunkSize is the capacity of a chunk in bytes.
const chunkSize = 59

// chunk is a part of a tally's list of entries. An entry does not span two chunks.
type chunk struct {
	next  uint32
	used  uint8
	bytes [chunkSize]byte
}

// chunks allocates chunks for tallies. The zero value is ready to use.
type chunks struct {
	blocks    []*[blockSize]chunk
	allocated uint32 // chunks taken from blocks; the first chunk is never used, because 0 means none
	free      uint32 // the head of the free list
}

const blockSize = 1 << 12

func (c *chunks) at(n uint32) *chunk { return &c.blocks[n/blockSize][n%blockSize] }

func (c *chunks) alloc() uint32 {
	if n := c.free; n != 0 {
		c.free = c.at(n).next
		*c.at(n) = chunk{}
		return n
	}
	c.allocated++
	if int(c.allocated/blockSize) >= len(c.blocks) {
		c.blocks = append(c.blocks, new([blockSize]chunk))
	}
	return c.allocated
}

func (c *chunks) release(n uint32) {
	c.at(n).next = c.free
	c.free = n
}

// forget drops the entries that have left the window at now. If the newest entry is more than a window ahead, the clock
// has jumped; the entries are moved back to now, as in the rule.
func (t *tally) forget(c *chunks, now, window rule.Micros) {
	if ahead := t.newest - now; t.units != 0 && ahead > window {
		t.oldest -= ahead
		t.newest = now
	}
	for t.units != 0 && t.oldest <= now-window {
		t.drop(c)
	}
}

// forgetFor drops the entries that no longer count for a limit at now: those that have left its window, or that belong
// to an earlier calendar period.
func (t *tally) forgetFor(c *chunks, now rule.Micros, limit *rule.Limit) {
	if limit.Calendar == 0 {
		t.forget(c, now, limit.Window)
		return
	}
	if t.newest-now > limit.Window {
		t.forget(c, now, limit.Window)
	}
	if t.units == 0 {
		return
	}
	start, _ := limit.Bounds(max(now, t.newest))
	for t.units != 0 && t.oldest < start {
		t.drop(c)
	}
}

// drop removes the oldest entry.
func (t *tally) drop(c *chunks) {
	t.sum -= t.units
	if t.head == 0 {
		t.units = 0
		return
	}
	head := c.at(t.head)
	later, n := binary.Uvarint(head.bytes[t.read:head.used])
	t.read += uint8(n)
	t.units = 1
	if later&1 != 0 {
		units, n := binary.Uvarint(head.bytes[t.read:head.used])
		t.read += uint8(n)
		t.units = int64(units)
	}
	t.oldest += rule.Micros(later >> 1)
	if t.read == head.used {
		next := head.next
		c.release(t.head)
		t.head, t.read = next, 0
		if next == 0 {
			t.tail = 0
		}
	}
}

// add counts units at a time. A time before the newest entry is treated as the time of the newest entry.
func (t *tally) add(c *chunks, at rule.Micros, units int64) {
	if units == 0 {
		return
	}
	if t.units == 0 {
		t.oldest, t.newest = at, at
	}
	at = max(at, t.newest)
	if at == t.oldest && t.head == 0 {
		t.units += units
	} else {
		t.push(c, uint64(at-t.newest), units)
	}
	t.newest = at
	t.sum += units
}

// push appends an entry.
func (t *tally) push(c *chunks, later uint64, units int64) {
	var entry [2 * binary.MaxVarintLen64]byte
	var n int
	if units == 1 {
		n = binary.PutUvarint(entry[:], later<<1)
	} else {
		n = binary.PutUvarint(entry[:], later<<1|1)
		n += binary.PutUvarint(entry[n:], uint64(units))
	}
	if t.tail == 0 {
		t.head = c.alloc()
		t.tail, t.read = t.head, 0
	}
	tail := c.at(t.tail)
	if int(tail.used)+n > chunkSize {
		tail.next = c.alloc()
		t.tail = tail.next
		tail = c.at(t.tail)
	}
	tail.used += uint8(copy(tail.bytes[tail.used:], entry[:n]))
}
