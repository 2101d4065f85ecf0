package lease

import (
	"sync/atomic"

	"github.com/slidegate/slidegate/rule"
	"github.com/slidegate/slidegate/store"
)

// lease is a number of units of one address that were charged together, to be spent here until its end.
//
// All of its changes go through one word, which is swapped to spend units and to close the lease. The goroutine that
// closes it learns how many units are unspent, and none can be spent from then on. Only then are they returned.
type lease struct {
	word      atomic.Uint64 // how many units are left, above them how often some were spent, and whether it is closed
	limit     *store.Limit  // the limit that the units were taken under
	at        rule.Micros   // the store's time of the charge
	end       int64         // by the layer's clock, in nanoseconds: units are spent before it
	reset     int64         // by the same clock: when the whole quota is free again, at the latest
	low       int64         // with that many units left it is time for the next lease
	requested atomic.Bool   // the next lease was requested
	turn      uint32        // the holding's turn when the lease was requested
	size      int64         // how many units there were; guarded by the holding's lock
}

const (
	unitBits = 42
	maxUnits = 1<<unitBits - 1
	oneSpend = 1 << unitBits
	closed   = uint64(1) << 63
)

// spend takes n units and returns how many are left, or false if there are fewer, or the lease is closed.
func (l *lease) spend(n int64) (left int64, ok bool) {
	for {
		word := l.word.Load()
		left = int64(word&maxUnits) - n
		if word&closed != 0 || left < 0 {
			return 0, false
		}
		if l.word.CompareAndSwap(word, (word-uint64(n)+oneSpend)&^closed) {
			return left, true
		}
	}
}

// unspend puts back n units that were spent for a request that was then not admitted. It returns false if the lease is
// closed.
func (l *lease) unspend(n int64) bool {
	for {
		word := l.word.Load()
		if word&closed != 0 {
			return false
		}
		if l.word.CompareAndSwap(word, word+uint64(n)-oneSpend) {
			return true
		}
	}
}

// left returns how many units are unspent, and how often some were spent.
func (l *lease) left() (units int64, spends uint64) {
	word := l.word.Load()
	return int64(word & maxUnits), word &^ closed >> unitBits
}

// close ends the lease and returns its unspent units, which now belong to the caller, or 0 if it was already closed.
func (l *lease) close() (units int64, spends uint64) {
	for {
		word := l.word.Load()
		if word&closed != 0 {
			return 0, word &^ closed >> unitBits
		}
		if l.word.CompareAndSwap(word, word&^maxUnits|closed) {
			return int64(word & maxUnits), word >> unitBits
		}
	}
}
