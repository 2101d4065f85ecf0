package refusals

import "sync/atomic"

// Stats reports what a Store has saved the inner store.
type Stats struct {
	Hits    int64 // requests that were refused from memory
	Misses  int64 // requests that were not found and went to the store; those that are never remembered do not count
	Entries int64 // refusals in memory, including those that have ended but were not replaced yet
}

// Stats is cheap enough to be called each time metrics are read.
func (s *Store) Stats() Stats {
	stats := Stats{Entries: s.entries.Load()}
	for i := range s.counts {
		stats.Hits += s.counts[i].hits.Load()
		stats.Misses += s.counts[i].misses.Load()
	}
	return stats
}

// stripes is the number of counters, so that processors that work on different keys do not contend.
const stripes = 16

type count struct {
	hits, misses atomic.Int64
	_            [48]byte // one processor cache line each
}

func (s *Store) count(hash uint64) *count { return &s.counts[hash%stripes] }
