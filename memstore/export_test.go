package memstore

import (
	"github.com/slidegate/slidegate/internal/journal"
	"github.com/slidegate/slidegate/rule"
	"sync"
	"testing"

	"github.com/slidegate/slidegate/store"
)

func (s *Store) findTable(limit *store.Limit) *table {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.tables[limit.Prefix()]
}

// Freeze puts the page of a limit's first keys into the state in which it has just been split but not yet replaced. It
// returns the page's lock, and a function that undoes this.
func (s *Store) Freeze(limit *store.Limit) (lock sync.Locker, thaw func()) {
	g := s.findTable(limit).page(0)
	set := func(dead bool) {
		g.mu.Lock()
		defer g.mu.Unlock()
		g.dead = dead
	}
	set(true)
	return &g.mu, func() { set(false) }
}

// SetCapacity makes an empty store smaller than Options allow: n bytes for keys.
func (s *Store) SetCapacity(n int64) { s.capacity = n }

// Capacity returns how many bytes keys take, and may take.
func (s *Store) Capacity() (used, room int64) { return s.used.Load(), s.capacity }

// Many stores are opened in tests, and small files are made faster.
func init() { segmentBytes = 2 << 20 }

// WithPause makes the store call a function at certain points.
func WithPause(opts Options, pause func(point string)) Options {
	opts.pause = pause
	return opts
}

// WithSegment makes stores that are opened until the end of the test have files of another size.
func WithSegment(t testing.TB, bytes int64) {
	was := segmentBytes
	segmentBytes = bytes
	t.Cleanup(func() { segmentBytes = was })
}

// CheckpointBytes returns how much the records of the last checkpoint take.
func CheckpointBytes(s *Store) int64 {
	s.keeper.checkpointing.Lock()
	defer s.keeper.checkpointing.Unlock()
	return s.keeper.saved
}

// WithoutCheckpoint calls a function while no checkpoint removes files of a store's folder.
func WithoutCheckpoint(s *Store, do func()) {
	s.keeper.checkpointing.Lock()
	defer s.keeper.checkpointing.Unlock()
	do()
}

// SlabBytes returns how much memory the states of a limit take in addition to their pages.
func SlabBytes(s *Store, limit *store.Limit) int64 {
	t := s.findTable(limit)
	pages := int64(0)
	t.mu.Lock()
	defer t.mu.Unlock()
	for range t.pages() {
		pages++
	}
	return t.bytes.Load() - pages*pageBytes - int64(len(t.dir.Load().pages))*dirBytes
}

// HeldBytes returns how many bytes holds take.
func HeldBytes(s *Store) int64 { return s.heldBytes.Load() }

// Replay returns a store in memory that has carried out records.
func Replay(records []journal.Record, opts Options) (*Store, error) {
	s, err := newStore(opts)
	if err != nil {
		return nil, err
	}
	real := s.clock
	r := &replayer{store: s, plans: map[uint32]*plan{}, ahead: true}
	s.keeper, s.opened, s.clock = &keeper{}, s.clock.read(), clock{now: func() rule.Micros { return r.now }}
	for _, record := range records {
		if err := r.replay(record); err != nil {
			return nil, err
		}
	}
	s.keeper, s.clock = nil, real
	return s, nil
}

// InSecondForm reports whether a page of a limit with the given algorithm has the second form.
func InSecondForm(s *Store, algorithm string) bool {
	for _, t := range s.tables {
		if t.limit.Algorithm.String() == algorithm && t.special.Load() {
			return true
		}
	}
	return false
}
