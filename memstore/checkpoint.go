package memstore

import (
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/slidegate/slidegate/internal/journal"
	"github.com/slidegate/slidegate/rule"
)

// A checkpoint appends the whole live state to the journal, while requests go on, and then removes what was there before. A key's state is
// recorded while its slot is claimed, so it is in order with the other records of the key.

const (
	claimedAtOnce  = 16                  // how many slots a checkpoint claims at a time
	keysPerSecond  = 200_000             // unless the journal must become shorter soon
	shortestPause  = time.Millisecond    // of one that is ahead of that
	checkpointPart = journal.MaxBody / 4 // bytes of a record, about
)

// Checkpoint makes the folder of a store that Open returned as short as it can be, while requests go on. The store does so by itself
// when it is worth it. For a store in memory only, it does nothing.
func (s *Store) Checkpoint() error {
	k := s.keeper
	if k == nil {
		return nil
	}
	k.checkpointing.Lock()
	defer k.checkpointing.Unlock()
	tables, err := s.beginCheckpoint()
	if err != nil {
		return fmt.Errorf("memstore: beginning a checkpoint: %w", err)
	}
	for _, t := range tables {
		t.checkpoint()
	}
	s.settlements.checkpoint(s)
	k.journal.Live(k.saved)
	if err := k.journal.Commit(); err != nil {
		return fmt.Errorf("memstore: ending a checkpoint: %w", err)
	}
	return nil
}

// save appends a record of a checkpoint.
func (k *keeper) save(kind uint8, body []byte) {
	k.journal.Append(kind, body)
	k.saved += int64(len(body)) + recordOverhead
}

// recordOverhead is what a record takes in addition to its body, on average.
const recordOverhead = 12

// beginCheckpoint begins a checkpoint between two requests, and records what all other records need, and what is small.
func (s *Store) beginCheckpoint() (tables []*table, err error) {
	k := s.keeper
	k.gate.Lock()
	defer k.gate.Unlock()
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := k.journal.Begin(); err != nil {
		return nil, err
	}
	k.saved = 0
	k.save(kindStore, s.key[:])
	now := s.clock.read()
	for _, t := range s.tables {
		if len(t.tags) == 0 || !t.use.requested && t.use.prepared == 0 && t.liveUntil(now) <= now && s.drop(t) {
			continue // nothing of it counts, and no request uses it
		}
		tables = append(tables, t)
		for limit, tag := range t.tags {
			e := encoder{}
			e.tag(t, &limit, tag)
			k.save(kindLimit, e.buf)
		}
		if f := t.forgotten.Load(); f != nil {
			f.checkpointFreed(s, t.tag.Load())
		}
	}
	for name, d := range s.documents {
		e := encoder{}
		e.document(name, d)
		k.save(kindDocument, e.buf)
	}
	return tables, nil
}

// checkpoint records the keys of a table, page by page, and then those that it has forgotten.
func (t *table) checkpoint() {
	k, e := t.store.keeper, encoder{}
	paced, began := 0, time.Now()
	// Pages split and merge concurrently. The next one begins where this one ends.
	for at := uint64(0); ; {
		g := t.page(at)
		g.mu.Lock()
		if g.dead {
			g.mu.Unlock()
			if t.dropped.Load() { // keys that became live since were recorded behind the beginning
				return
			}
			continue
		}
		paced += t.checkpointPage(g, &e)
		depth := g.depth
		g.mu.Unlock()
		switch ahead := time.Duration(paced)*time.Second/keysPerSecond - time.Since(began); {
		case k.journal.Hurry(k.saved):
			paced, began = 0, time.Now()
		case ahead >= shortestPause:
			time.Sleep(ahead)
		}
		if depth == 0 {
			break
		}
		size := uint64(1) << (64 - depth)
		if at = at&^(size-1) + size; at == 0 {
			break
		}
	}
	if f := t.forgotten.Load(); f != nil {
		f.save(t.store.clock.read(), t.tag.Load(), func(record []byte) { k.save(kindForgotten, record) })
	}
}

// checkpointPage records the live keys of a page, whose lock is held, and returns how many there were. It uses the memory of e.
func (t *table) checkpointPage(g *page, e *encoder) (n int) {
	f, held := t.form(g), t.held.of(g)
	k, tag := t.store.keeper, t.tag.Load()
	var s rule.State
	var claimed [claimedAtOnce]struct {
		slot int
		word uint64
	}
	recorded := map[uint64]bool{} // the keys whose holds have been recorded
	for slot := 0; slot < f.slots(); {
		now := t.store.clock.read()
		e.begin(now, tag)
		start, claims := len(e.buf), 0
		for ; slot < f.slots() && claims < claimedAtOnce; slot++ {
			h := f.hash(g, slot) // it does not change while the page's lock is held
			if h == unused {
				continue
			}
			w := f.claim(g, slot)
			claimed[claims].slot, claimed[claims].word = slot, w
			claims++
			clearState(&s)
			f.load(t, g, slot, w, &s)
			if s.Holds = held[h]; t.limit.Expires(&s) > now || openUntil(s.Holds, now) > now {
				e.hash(h)
				e.state(t.limit.Algorithm, &s)
				if len(e.buf) > checkpointPart {
					k.save(kindKeys, e.buf)
					e.buf = e.buf[:start]
				}
				n++
				if len(s.Holds) > 0 {
					recorded[h] = true
				}
			}
		}
		if len(e.buf) > start {
			k.save(kindKeys, e.buf)
		}
		for _, c := range claimed[:claims] {
			f.release(g, c.slot, c.word)
		}
	}
	t.checkpointHolds(held, recorded)
	return n
}

// checkpointHolds records what is held of keys that have no slot.
func (t *table) checkpointHolds(held heldKeys, recorded map[uint64]bool) {
	now := t.store.clock.read()
	for h, holds := range held {
		if recorded[h] || openUntil(holds, now) <= now {
			continue
		}
		e := encoder{}
		e.begin(now, t.tag.Load())
		e.hash(h)
		e.state(t.limit.Algorithm, &rule.State{Start: rule.Absent, Holds: holds})
		t.store.keeper.save(kindKeys, e.buf)
	}
}

// checkpoint records all settlements that have not expired.
func (m *settlements) checkpoint(s *Store) {
	now := s.clock.read()
	for i := range m.shards {
		m.shards[i].checkpoint(s.keeper, now)
	}
}

// checkpoint holds the lock until all is recorded: a settlement that comes later must be recorded behind these.
func (d *settlementShard) checkpoint(k *keeper, now rule.Micros) {
	e := encoder{}
	d.mu.Lock()
	defer d.mu.Unlock()
	for key, known := range d.known {
		if known.expires <= now {
			continue
		}
		e.settlement(key, known.settlementLife, d.results[known.first:][:known.length])
		if k.pause != nil {
			k.pause("settlement read")
		}
		if len(e.buf) >= checkpointPart {
			k.save(kindSettlements, e.buf)
			e.buf = e.buf[:0]
		}
	}
	if len(e.buf) > 0 {
		k.save(kindSettlements, e.buf)
	}
}

// checkpointFreed records the keys that were reset after they had been forgotten.
func (f *forgotten) checkpointFreed(s *Store, tag uint32) {
	f.mu.Lock()
	freed := slices.AppendSeq(slices.Collect(maps.Keys(f.freed.newer)), maps.Keys(f.freed.older))
	f.mu.Unlock()
	if len(freed) == 0 {
		return
	}
	e := encoder{}
	e.begin(s.clock.read(), tag)
	for _, h := range freed {
		e.hash(h)
	}
	s.keeper.save(kindFreed, e.buf)
}
