package kvstore

import (
	"context"
	"time"
)

// memory is what this process knows about an entry: its contents when it was last written from here, and how often other processes
// compete for it.
type memory struct {
	value    []byte
	revision uint64 // of value; 0 if it is not known
	written  uint64 // the revision that this process wrote last
	streak   int    // number of consecutive swaps without a read
	reads    int    // how many more decisions begin with a read, because another process changed the entry recently

	conflicts int           // of recent decisions
	roundTrip time.Duration // of the last read
}

const (
	// maxRememberedBytes is the largest size of a value that is remembered.
	maxRememberedBytes = 4 << 10
	// minRemembered is the smallest number of entries per shard whose conflicts are remembered.
	minRemembered = 16

	// readsAfterConflict is how many decisions begin with a read after a conflict with another process.
	readsAfterConflict = 32
	// maxStreak bounds the number of consecutive swaps without a read. A process that never reads is always faster than one that
	// must, and would starve it.
	maxStreak = 16
	// maxConflicts bounds how many conflicts count, and so how long a process yields.
	maxConflicts = 16
	maxYield     = 20 * time.Millisecond
)

// current reports whether the value may be swapped without being read first. The swap checks its revision.
func (m *memory) current() bool { return m.revision != 0 && m.reads == 0 && m.streak < maxStreak }

// recordSwap records a swap that succeeded after some conflicts.
func (m *memory) recordSwap(fromMemory bool, conflicts int) {
	if m.streak++; !fromMemory {
		m.streak = 0
	}
	m.conflicts = max(m.conflicts-1, min(conflicts, maxConflicts), 0)
	if m.reads = max(0, m.reads-1); conflicts > 0 {
		m.reads = readsAfterConflict
	}
}

func (m *memory) forget() { m.value, m.revision = nil, 0 }

// yield waits for a random time that grows with the conflicts of recent decisions. A process that competes for an entry thus lets
// others go first after its turn, while one that has met a conflict retries soon. The process that wins decides for all its
// callers, so waiting costs little throughput.
func (m *memory) yield(timeout time.Duration) {
	_ = pause(context.Background(), min(2*m.roundTrip*time.Duration(m.conflicts), maxYield, timeout/8))
}

// recall returns what is remembered about an entry.
func (s *shard) recall(name string) memory {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.remembered[name]
}

// remember replaces what is remembered about an entry. It keeps only values that this process wrote: what another one wrote
// last, it probably writes again. If there are too many entries, it forgets an arbitrary one.
func (s *shard) remember(name string, m memory) {
	if !s.values || m.revision != m.written || len(m.value) > maxRememberedBytes {
		m.forget()
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if m.revision == 0 {
		m.value = nil
		if m.conflicts == 0 {
			delete(s.remembered, name)
			return
		}
	}
	if _, known := s.remembered[name]; !known && len(s.remembered) >= s.maxRemembered {
		for other := range s.remembered {
			delete(s.remembered, other)
			break
		}
	}
	s.remembered[name] = m
}
