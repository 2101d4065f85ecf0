package memstore

import (
	"bufio"
	"fmt"
	"hash/crc32"
	"io"

	"github.com/slidegate/slidegate/rule"
)

// Restore returns a store that goes on from a snapshot. Time that has passed since counts as passed. What does not
// fit a smaller MaxKeys is treated as live keys in a full store are: what is forgotten is inherited. There may be more
// shapes in it than MaxShapes, and those that nobody asks for do not count. Bytes after the end of the snapshot are an error.
//
// Snapshots of earlier versions are read too. What their token buckets lack is known only by when they are full, and counts at
// the rate of the limit that next asks for the key.
func Restore(r io.Reader, opts Options) (*Store, error) {
	s, err := newStore(opts)
	if err != nil {
		return nil, err
	}
	d := &decoder{r: bufio.NewReader(r), sum: crc32.New(checksums)}
	if err := d.begin(); err != nil {
		return nil, err
	}
	copy(s.key[:], d.bytes(len(s.key)))
	d.int() // when it was taken; the states have their own times
	records, settlements, err := d.records(s)
	if err != nil {
		return nil, err
	}
	// Nothing is taken over before all of it is known to be whole.
	if err := placeIn(s, records); err != nil {
		return nil, err
	}
	restoreAll(records)
	s.settlements.restore(settlements)
	return s, nil
}

// restoreAll puts records where decisions will find them, floors only once all keys are in their places.
func restoreAll(records []record) {
	for _, floors := range []bool{false, true} {
		for i := range records {
			if records[i].floor == floors {
				records[i].restore()
			}
		}
	}
}

// record is one slot of a snapshot.
type record struct {
	table *table
	state rule.State
	floor bool
	hash  uint64 // of the key; of a floor, the first hash of its segment
	depth uint   // of the floor's segment
	set   int    // of the floor,
	sets  int    // and how many its segment had
}

// restore puts a record where decisions will find it. A floor goes to every segment that has hashes it covers.
func (r *record) restore() {
	if !r.floor {
		r.restoreAt(r.hash)
		return
	}
	// The sets may have been cut otherwise when the floor was saved: it goes to every one that has a part of what it covers.
	first, _ := setOf(firstIn(r.set, r.sets), r.table.sets)
	last, _ := setOf(firstIn(r.set+1, r.sets)-1, r.table.sets)
	for set := first; set <= last; set++ {
		r.restoreFloor(max(reserved, firstIn(int(set), r.table.sets)))
	}
}

// firstIn returns the lower half of the first hash that belongs to a set.
func firstIn(set, sets int) uint64 { return (uint64(set)<<32 + uint64(sets) - 1) / uint64(sets) }

// restoreFloor puts a floor into the set that low belongs to, in every segment that it covers.
func (r *record) restoreFloor(low uint64) {
	for at, end := r.hash, r.hash+1<<(64-r.depth)-1; ; {
		depth := r.table.segment(at).header().depth
		r.restoreAt(at | low)
		last := at | (1<<(64-depth) - 1)
		if last >= end {
			return
		}
		at = last + 1
	}
}

func (r *record) restoreAt(h uint64) {
	t := r.table
	j := t.store.newJob(rule.Charge, 1)
	defer j.end()
	c := &j.claims[0]
	c.plan, c.h = &plan{table: t, limit: &t.limit}, h
	for {
		if g, packed := t.segment(h).(*packedSegment); packed {
			if _, fits := t.layout.pack(&r.state); !fits {
				t.heighten(g, h)
				continue
			}
		}
		j.lock()
		what, _, now := j.open()
		switch {
		case what == ready && r.floor:
			r.putFloor(c, now)
		case what == ready:
			r.putKey(c, now)
			j.items[0].Changed = true
		}
		j.close(what == ready, j.answer[:])
		switch what {
		case ready, full:
			return
		case needSplit:
			t.split(c.segment, h)
		case needTall:
			t.heighten(c.segment.(*packedSegment), h)
		}
	}
}

func (r *record) putKey(c *claim, now rule.Micros) {
	if c.inherited {
		r.table.limit.Cover(&c.state, &r.state, now)
		return
	}
	c.state = r.state
}

func (r *record) putFloor(c *claim, now rule.Micros) {
	floor := r.state.Clone()
	if c.floor >= 0 {
		r.table.limit.Cover(&floor, &c.forgotten, now)
		c.segment.set(r.table, c.floor, floorHash, &floor)
		return
	}
	c.segment.set(r.table, c.slot, floorHash, &floor)
	c.segment.header().floors |= 1 << (c.slot / setSlots)
	c.slot = -1
}

// placeIn makes the tables that records need.
func placeIn(s *Store, records []record) error {
	for i := range records {
		r := &records[i]
		shape := r.table.shape
		if r.table = s.tables[shape]; r.table != nil {
			continue
		}
		if len(s.tables) == mostShapes {
			return fmt.Errorf("%w: it has more than %d shapes of limits", ErrSnapshot, mostShapes)
		}
		r.table = s.addTable(shape)
	}
	return nil
}
