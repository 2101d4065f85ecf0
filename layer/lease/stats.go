package lease

import "sync/atomic"

// counts are what Stats is made of, besides what holdings know themselves.
type counts struct {
	taken, returned, wasted, calls atomic.Int64
	units                          atomic.Int64 // spent under holdings that are gone
	spends                         atomic.Uint64
}

// Stats says what leases have done since the store was made.
type Stats struct {
	Keys      int    // that have a holding now
	Out       int64  // units that were taken and are neither spent nor given back yet
	Taken     int64  // units that were taken in blocks
	Spent     int64  // units that were admitted from blocks
	Returned  int64  // units that were given back
	Wasted    int64  // units that were charged and neither spent nor given back, as after an error
	Decisions uint64 // requests that were admitted from blocks, without a call of their own
	Calls     int64  // that were made for blocks and to give back
}

// Stats returns what leases have done.
func (s *Store) Stats() Stats {
	s.table.mu.Lock()
	defer s.table.mu.Unlock()
	t := Stats{
		Keys: len(s.table.held), Taken: s.counts.taken.Load(), Returned: s.counts.returned.Load(), Wasted: s.counts.wasted.Load(),
		Calls: s.counts.calls.Load(), Spent: s.counts.units.Load(), Decisions: s.counts.spends.Load(),
	}
	for _, e := range s.table.held {
		e.mu.Lock()
		spent, out := e.spent()
		e.mu.Unlock()
		t.Spent += spent.units
		t.Decisions += spent.spends
		t.Out += out
	}
	return t
}
