package memstore

import (
	"unsafe"
)

// Stats tells how large the store is.
type Stats struct {
	Slots       int64 // places for keys, used or not
	Bytes       int64 // what they take, without the rings of sliding logs and the slots of in-flight limits
	Evictions   int64 // live keys that lost their place to new ones
	Settlements int64 // settlements that are remembered, or have expired and are not dropped yet
}

// Stats looks at every segment, not at every key: it is cheap enough to be asked for each time metrics are read.
func (s *Store) Stats() Stats {
	stats := Stats{Slots: s.slots.Load(), Evictions: s.evictions.Load(), Settlements: s.settlements.held.Load()}
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, t := range s.tables {
		t.mu.Lock()
		d := t.dir.Load()
		stats.Bytes += int64(len(d.entries)) * int64(unsafe.Sizeof(entry{}))
		for i := range d.entries {
			e := &d.entries[i]
			// A segment stands in several entries if it has fewer bits than the directory; it counts in the first.
			if i > 0 && d.entries[i-1].same(e) {
				continue
			}
			stats.Bytes += e.bytes()
		}
		t.mu.Unlock()
	}
	return stats
}

func (e *entry) same(other *entry) bool {
	return e.packed.Load() == other.packed.Load() && e.tall.Load() == other.tall.Load() && e.wide.Load() == other.wide.Load()
}

func (e *entry) bytes() int64 {
	switch {
	case e.packed.Load() != nil:
		return segmentBytes
	case e.tall.Load() != nil:
		return 2 * segmentBytes
	default:
		w := e.wide.Load()
		return int64(8*(len(w.hashes)+len(w.words)+len(w.rings)+3*len(w.held)) + 4*len(w.claimed))
	}
}
