package denycache

import "sync/atomic"

// Stats tells what a Store has saved the store below.
type Stats struct {
	Hits    int64 // requests that were refused from memory
	Misses  int64 // requests that were looked for in vain and went to the store; those that are never remembered do not count
	Entries int64 // refusals in memory, with those that have ended and whose place nobody needed yet
}

// Stats is cheap enough to be asked for each time metrics are read.
func (s *Store) Stats() Stats {
	stats := Stats{Entries: s.entries.Load()}
	for i := range s.counts {
		stats.Hits += s.counts[i].hits.Load()
		stats.Misses += s.counts[i].misses.Load()
	}
	return stats
}

// stripes is how many counts there are, so that processors that are busy with different keys do not wait for each other.
const stripes = 16

type count struct {
	hits, misses atomic.Int64
	_            [48]byte // a line of the processor's cache to each
}

func (s *Store) count(hash uint64) *count { return &s.counts[hash%stripes] }
