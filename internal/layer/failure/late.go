package failure

import (
	"hash/maphash"
	"sync/atomic"
	"time"

	"github.com/slidegate/slidegate/store"
)

// lateKeys counts how often in a row the store was late for a key, so that a key that always is, because its row is locked
// or its own traffic is more than the store can take, does not hold up callers. It is a fixed table in which keys may
// displace one another: a key that was displaced is asked for again. For a request with several charges, the key is all of
// them together: it is not known which one was late.
type lateKeys struct {
	seed  maphash.Seed
	last  atomic.Int64 // when a call was late last, in nanoseconds since the layer's base; the table is empty long after that
	cells [4096]atomic.Uint64
}

const (
	lateInARow = 3                       // after so many late calls a key is shed
	shedFor    = int64(time.Second)      // for so long
	lateMemory = 10 * int64(time.Second) // how long a late call is remembered
	cellTick   = int64(time.Millisecond) // resolution of the times in cells
)

// A cell holds 24 bits of the key's hash, a count of 4 bits, and the time of the last late call in 36 bits.
const (
	timeBits  = 36
	countBits = 4
	maxCount  = 1<<countBits - 1
)

// isActive reports whether any key may be in the table.
func (k *lateKeys) isActive(now int64) bool {
	last := k.last.Load()
	return last != 0 && now-last < lateMemory
}

// forget empties the table, because the store was out and is back.
func (k *lateKeys) forget() { k.last.Store(0) }

// find returns the cell of a key, and how often in a row it was late, and when last.
func (k *lateKeys) find(hash uint64, now int64) (cell *atomic.Uint64, value uint64, count int, at int64) {
	cell = &k.cells[hash%uint64(len(k.cells))]
	value = cell.Load()
	at = int64(value&(1<<timeBits-1)) * cellTick
	if value>>(timeBits+countBits) != hash>>(timeBits+countBits) || now-at >= lateMemory || !k.isActive(now) {
		return cell, value, 0, at
	}
	return cell, value, int(value >> timeBits & maxCount), at
}

// isShed reports whether a key must not be asked for now.
func (k *lateKeys) isShed(hash uint64, now int64) bool {
	_, _, count, at := k.find(hash, now)
	return count >= lateInARow && now-at < shedFor
}

// record records a late call. It does not displace a key that is shed.
func (k *lateKeys) record(hash uint64, now int64) {
	if !k.isActive(now) {
		for i := range k.cells {
			k.cells[i].Store(0)
		}
	}
	k.last.Store(now)
	cell, value, count, at := k.find(hash, now)
	if count == 0 && int(value>>timeBits&maxCount) >= lateInARow && now-at < shedFor {
		return
	}
	count = min(count+1, maxCount)
	cell.CompareAndSwap(value, hash>>(timeBits+countBits)<<(timeBits+countBits)|uint64(count)<<timeBits|uint64(now/cellTick))
}

// clear records that the store answered for a key.
func (k *lateKeys) clear(hash uint64, now int64) {
	if cell, value, count, _ := k.find(hash, now); count > 0 {
		cell.CompareAndSwap(value, 0)
	}
}

// hash returns the hash of a request's addresses.
func (k *lateKeys) hash(group string, charges []store.Charge) (hash uint64) {
	for i := range charges {
		hash = hash*31 + k.hashOf(addressOf(group, &charges[i]))
	}
	return hash
}

func (k *lateKeys) hashOf(at address) uint64 { return maphash.Comparable(k.seed, at) }
