//go:build !amd64 || race

package journal

import "sync/atomic"

// put writes a word of a record that is being written.
func put(at *atomic.Uint64, v uint64) { at.Store(v) }

// publish writes the first word of a record, after all others.
func publish(at *atomic.Uint64, v uint64) { at.Store(v) }
