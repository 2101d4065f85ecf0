//go:build !amd64 || race

package memstore

import "sync/atomic"

// put writes a word of a slot that is busy, or of a line that belongs to one.
func put(at *atomic.Uint64, v uint64) { at.Store(v) }

// publish writes the control word of a slot that was busy, after all else.
func publish(at *atomic.Uint64, v uint64) { at.Store(v) }
