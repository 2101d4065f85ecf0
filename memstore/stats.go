package memstore

import (
	"cmp"
	"slices"
)

// Stats says how large the store is.
type Stats struct {
	Bytes       int64 // of memory in use, of at most MaxBytes
	MaxBytes    int64
	Keys        int64 // keys that are held, expired ones included whose place nobody has taken yet
	Evictions   int64 // live keys that were forgotten to make room
	Settlements int64 // settlements that are remembered, or have expired and are not dropped yet
	Limits      []LimitStats
}

// LimitStats is the part of one limit in Stats. Limits of the same name and another window are another one each.
type LimitStats struct {
	Namespace string
	Name      string
	Shape     string // algorithm and window, as rule.Shape has it
	Bytes     int64
	Held      int64 // keys that are held, expired ones included whose place nobody has taken yet
	Forgotten int64 // keys of which only a trace is left, about
	Evictions int64 // how many live keys were forgotten in all
	Recalled  int64 // decisions about keys that had been forgotten, or looked like it
	Refused   int64 // those of them that were refused
}

// Stats looks at every limit, not at every key: it is cheap enough to be asked for each time metrics are read.
func (s *Store) Stats() Stats {
	stats := Stats{MaxBytes: s.opts.MaxBytes, Settlements: s.settlements.held.Load()}
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.clock.read()
	for _, t := range s.tables {
		one := LimitStats{
			Namespace: t.id.namespace, Name: t.id.name, Shape: t.shape.String(), Bytes: t.bytes.Load(), Held: t.counts.held.Load(),
			Evictions: t.counts.evictions.Load(), Recalled: t.counts.recalled.Load(), Refused: t.counts.refused.Load(),
		}
		if f := t.forgotten.Load(); f != nil {
			f.expire(now)
			one.Forgotten = f.held()
			one.Bytes += f.bytes()
		}
		stats.Keys += one.Held
		stats.Evictions += one.Evictions
		stats.Limits = append(stats.Limits, one)
	}
	stats.Bytes = s.used.Load() + s.forgottenUsed.Load() + stats.Settlements*settlementBytes
	slices.SortFunc(stats.Limits, func(a, b LimitStats) int {
		return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name), cmp.Compare(a.Shape, b.Shape))
	})
	return stats
}
