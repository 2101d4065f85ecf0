package kvstore

import (
	"context"
	"time"
)

// memory is what this process knows about an entry: its contents when it was last written from here, and how much other processes
// compete for it.
type memory struct {
	value    []byte
	revision uint64 // of value; 0 if it is not known
	written  uint64 // the revision that this process wrote last
	streak   int    // how often in a row the entry was swapped without being read
	reads    int    // how many more times it is read first, because another process changed it recently

	conflicts int           // met by recent decisions
	trip      time.Duration // of the last read
}

const (
	// longestRemembered is the largest size of a value that is remembered.
	longestRemembered = 4 << 10
	// leastRemembered is the smallest number of entries per shard whose conflicts are remembered.
	leastRemembered = 16

	// readsAfterConflict is how often an entry is read first once another process was found to change it too.
	readsAfterConflict = 32
	// longestStreak bounds how often in a row an entry is swapped without being read. A process that never reads is always faster
	// than one that must, and would starve it.
	longestStreak = 16
	// mostConflicts bounds how many conflicts count, and with it how long a process yields.
	mostConflicts = 16
	longestYield  = 20 * time.Millisecond
)

// current reports whether the value may be swapped without being read first. The engine then checks the revision.
func (m *memory) current() bool { return m.revision != 0 && m.reads == 0 && m.streak < longestStreak }

// swapped takes note of a swap that succeeded after some conflicts.
func (m *memory) swapped(fromMemory bool, conflicts int) {
	if m.streak++; !fromMemory {
		m.streak = 0
	}
	m.conflicts = max(m.conflicts-1, min(conflicts, mostConflicts), 0)
	if m.reads = max(0, m.reads-1); conflicts > 0 {
		m.reads = readsAfterConflict
	}
}

func (m *memory) forget() { m.value, m.revision = nil, 0 }

// yield waits for a random time that grows with the conflicts of recent decisions. Processes that compete for an entry so let others
// go first after they had their turn; those that have met a conflict retry soon. Whoever wins decides for all its callers, so
// waiting costs little throughput.
func (m *memory) yield(timeout time.Duration) {
	_ = pause(context.Background(), min(2*m.trip*time.Duration(m.conflicts), longestYield, timeout/8))
}

// recall returns what is remembered about an entry.
func (s *shard) recall(name string) memory {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.remembered[name]
}

// remember replaces what is remembered about an entry. It keeps only values that this process wrote: some engines number revisions
// just well enough for a swap that follows a read at once. If there are too many entries, it forgets any other.
func (s *shard) remember(name string, m memory) {
	if !s.values || m.revision != m.written || len(m.value) > longestRemembered {
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
	if _, known := s.remembered[name]; !known && len(s.remembered) >= s.most {
		for other := range s.remembered {
			delete(s.remembered, other)
			break
		}
	}
	s.remembered[name] = m
}
