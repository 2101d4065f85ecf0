package lease

import (
	"sync/atomic"

	"github.com/slidegate/slidegate/rule"
	"github.com/slidegate/slidegate/store"
)

// block is units of one address that were charged in one trip, to be spent here until its end.
//
// All that happens to them goes through one word: it is swapped to spend some, and to close the block. The one that closes it learns
// how many units nobody has spent, and nobody can spend them from then on. Only then are they given back.
type block struct {
	word  atomic.Uint64 // how many units are left, above them how often some were spent, and whether it is closed
	limit *store.Limit  // the limit that they were taken under
	at    rule.Micros   // the store's time of the charge
	end   int64         // on the layer's clock, in nanoseconds: they are spent before it
	reset int64         // on the same clock: when the whole quota is free again, at the latest
	low   int64         // with so many left it is time for the next block
	asked atomic.Bool   // the next block was asked for
	turn  uint32        // of the holding, when they were asked for
	size  int64         // how many there were; guarded by the lock of the holding
}

const (
	unitBits  = 42
	mostUnits = 1<<unitBits - 1
	oneSpend  = 1 << unitBits
	closed    = uint64(1) << 63
)

// spend takes n units and returns how many are left, or false if there are fewer, or the block is closed.
func (b *block) spend(n int64) (left int64, ok bool) {
	for {
		word := b.word.Load()
		left = int64(word&mostUnits) - n
		if word&closed != 0 || left < 0 {
			return 0, false
		}
		if b.word.CompareAndSwap(word, (word-uint64(n)+oneSpend)&^closed) {
			return left, true
		}
	}
}

// unspend puts n units back that were spent for a request that then was not admitted. It is false if the block is closed.
func (b *block) unspend(n int64) bool {
	for {
		word := b.word.Load()
		if word&closed != 0 {
			return false
		}
		if b.word.CompareAndSwap(word, word+uint64(n)-oneSpend) {
			return true
		}
	}
}

// left returns how many units nobody has spent, and how often some were.
func (b *block) left() (units int64, spends uint64) {
	word := b.word.Load()
	return int64(word & mostUnits), word &^ closed >> unitBits
}

// close ends the block. The units that nobody has spent are the caller's; they are nobody's if the block was closed before.
func (b *block) close() (units int64, spends uint64) {
	for {
		word := b.word.Load()
		if word&closed != 0 {
			return 0, word &^ closed >> unitBits
		}
		if b.word.CompareAndSwap(word, word&^mostUnits|closed) {
			return int64(word & mostUnits), word >> unitBits
		}
	}
}
