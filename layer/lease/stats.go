package lease

import "sync/atomic"

// counts are the sums that Stats is made of; what was spent from keys that are held now is added to them.
type counts struct {
	taken, returned, wasted, calls atomic.Int64
	units                          atomic.Int64 // spent under holdings that are gone
	spends                         atomic.Uint64
	told                           tally // what Stats returned last; guarded by the table's lock
}

// Stats counts what leases have done since the store was made.
type Stats struct {
	Keys      int    // keys that are held now
	Out       int64  // units that were taken and are neither spent nor given back yet
	Taken     int64  // units that were taken in blocks
	Spent     int64  // units that were admitted from blocks
	Returned  int64  // units that were given back
	Wasted    int64  // units that were charged and neither spent nor given back, as after an error
	Decisions uint64 // requests that were admitted from blocks, without a call of their own
	Calls     int64  // calls of the store for blocks and to give back
}

// Stats returns the counts. All but Keys and Out never fall.
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
	// A request over several limits may put back what it has just spent.
	t.Spent, t.Decisions = max(t.Spent, s.counts.told.units), max(t.Decisions, s.counts.told.spends)
	s.counts.told = tally{t.Spent, t.Decisions}
	return t
}
