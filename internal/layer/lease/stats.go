package lease

import "sync/atomic"

// counts are the sums that Stats is made of; what was spent from keys that are now held is added to them.
type counts struct {
	taken, returned, wasted, calls atomic.Int64
	units                          atomic.Int64 // spent under removed holdings
	spends                         atomic.Uint64
	last                           tally // what Stats returned last; guarded by the table's lock
}

// Stats counts the work of leases since the store was created.
type Stats struct {
	Keys        int    // keys that are held now
	Outstanding int64  // units that were leased and are neither spent nor returned yet
	Taken       int64  // units that were leased
	Spent       int64  // units that were admitted from leases
	Returned    int64  // units that were returned
	Wasted      int64  // units that were charged and neither spent nor returned, as after an error
	Decisions   uint64 // requests that were admitted from leases, without their own call
	Calls       int64  // calls to the store to lease and to return units
}

// Outstanding returns the units that were leased and are neither spent nor returned yet, by the namespace of their limit.
func (s *Store) Outstanding() map[string]int64 {
	s.table.mu.Lock()
	defer s.table.mu.Unlock()
	units := map[string]int64{}
	for _, e := range s.table.held {
		e.mu.Lock()
		_, out := e.spent()
		e.mu.Unlock()
		units[e.limit.Namespace()] += out
	}
	return units
}

// Stats returns the current counts. All but Keys and Outstanding never decrease.
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
		t.Outstanding += out
	}
	// A request over several limits may put back what it has just spent.
	t.Spent, t.Decisions = max(t.Spent, s.counts.last.units), max(t.Decisions, s.counts.last.spends)
	s.counts.last = tally{t.Spent, t.Decisions}
	return t
}
