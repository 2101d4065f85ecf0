//go:build !amd64 || race

package memstore

import "sync/atomic"

// put writes a word of a busy slot, or of a line that belongs to one.
func put(at *atomic.Uint64, v uint64) { at.Store(v) }

// publish writes the control word of a busy slot, after all other words.
func publish(at *atomic.Uint64, v uint64) { at.Store(v) }
