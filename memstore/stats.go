package memstore

import (
	"cmp"
	"slices"

	"github.com/slidegate/slidegate/internal/shape"
)

// Stats describes the size of a store.
type Stats struct {
	Bytes       int64 // bytes in use, at most MaxBytes
	MaxBytes    int64
	Keys        int64 // keys held, including expired ones whose slots have not been reused yet
	Evictions   int64 // live keys forgotten to make space
	Settlements int64 // settlements remembered, including expired ones that have not been dropped yet
	Limits      []LimitStats
}

// LimitStats describes one limit in Stats. Limits with the same name but different windows are separate.
type LimitStats struct {
	Namespace string
	Name      string
	Shape     string // algorithm and window, as in the addresses of states
	Bytes     int64
	Keys      int64 // keys held, including expired ones whose slots have not been reused yet
	Forgotten int64 // approximate number of keys of which only a trace is left
	Evictions int64 // total number of live keys that were forgotten
	Recalled  int64 // decisions about keys that had been forgotten, or looked like one
	Refused   int64 // how many of those decisions were refusals
}

// Stats returns the size of the store. It visits every limit, not every key, so it is cheap enough to call each time
// metrics are collected.
func (s *Store) Stats() Stats {
	stats := Stats{MaxBytes: s.opts.MaxBytes, Settlements: s.settlements.held.Load()}
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.clock.read()
	for _, t := range s.tables {
		one := LimitStats{
			Namespace: t.namespace, Name: t.name, Shape: shape.Name(&t.limit), Bytes: t.bytes.Load(), Keys: t.counts.held.Load(),
			Evictions: t.counts.evictions.Load(), Recalled: t.counts.recalled.Load(), Refused: t.counts.refused.Load(),
		}
		if f := t.forgotten.Load(); f != nil {
			f.expire(now)
			one.Forgotten = f.held()
			one.Bytes += f.bytes()
		}
		stats.Keys += one.Keys
		stats.Evictions += one.Evictions
		stats.Limits = append(stats.Limits, one)
	}
	stats.Bytes = s.used.Load() + s.forgottenUsed.Load() + stats.Settlements*settlementBytes
	slices.SortFunc(stats.Limits, func(a, b LimitStats) int {
		return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name), cmp.Compare(a.Shape, b.Shape))
	})
	return stats
}
