package memstore

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"hash"
	"hash/crc32"
	"io"

	"github.com/slidegate/slidegate/rule"
)

// Restore returns a store that goes on from a snapshot. Time that has passed since counts as passed. What does not
// fit a smaller MaxKeys is treated as live keys in a full store are: what is forgotten is inherited. There may be more
// shapes in it than MaxShapes, and those that nobody asks for do not count. Bytes after the end of the snapshot are an error.
func Restore(r io.Reader, opts Options) (*Store, error) {
	s, err := newStore(opts)
	if err != nil {
		return nil, err
	}
	d := &decoder{r: bufio.NewReader(r), sum: crc32.New(checksums)}
	if got := d.bytes(len(magic)); d.err == nil && string(got) != magic {
		return nil, fmt.Errorf("%w: it begins with %q", ErrSnapshot, got)
	}
	copy(s.key[:], d.bytes(len(s.key)))
	d.int() // when it was taken; the states have their own times
	records, err := d.records(s)
	if err != nil {
		return nil, err
	}
	// Nothing is taken over before all of it is known to be whole.
	if err := placeIn(s, records); err != nil {
		return nil, err
	}
	restoreAll(records)
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
	set   int    // of the floor
}

// restore puts a record where decisions will find it. A floor goes to every segment that has hashes it covers.
func (r *record) restore() {
	if !r.floor {
		r.restoreAt(r.hash)
		return
	}
	// Any hash will do that belongs to the set.
	low := max(reserved, (uint64(r.set)<<32+uint64(r.table.sets)-1)/uint64(r.table.sets))
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
	c.segment.header().floors |= 1 << r.set
	c.slot = -1
}

// decoder reads what encoder wrote. After the first error it returns zeros.
type decoder struct {
	r   *bufio.Reader
	sum hash.Hash32
	err error
}

func (d *decoder) bytes(n int) []byte {
	b := make([]byte, n)
	if d.err == nil {
		_, d.err = io.ReadFull(d.r, b)
	}
	d.sum.Write(b)
	return b
}

// ReadByte makes the decoder an io.ByteReader of what counts for the checksum.
func (d *decoder) ReadByte() (byte, error) {
	b, err := d.r.ReadByte()
	if err == nil {
		d.sum.Write([]byte{b})
	}
	return b, err
}

func (d *decoder) int() int64 {
	if d.err != nil {
		return 0
	}
	n, err := binary.ReadVarint(d)
	d.err = err
	return n
}

// records reads all records that are still live, and checks the sum that follows them.
func (d *decoder) records(s *Store) ([]record, error) {
	var all []record
	var t *table // of the last shape; it holds nothing yet
	now := s.now()
	for kind := d.int(); kind != recordEnd || d.err != nil; kind = d.int() {
		var err error
		switch {
		case d.err != nil:
			err = fmt.Errorf("%w: %w", ErrSnapshot, d.err)
		case kind == recordShape:
			t, err = d.table(s)
		case (kind == recordKey || kind == recordFloor) && t != nil:
			r := record{table: t, floor: kind == recordFloor}
			if err = d.slot(&r); err == nil && t.limit.Expires(&r.state) > now {
				all = append(all, r)
			}
		default:
			err = fmt.Errorf("%w: unknown record %d", ErrSnapshot, kind)
		}
		if err != nil {
			return nil, err
		}
	}
	return all, d.end()
}

// end checks the sum that follows the records, and that nothing follows the sum.
func (d *decoder) end() error {
	want := d.sum.Sum32()
	if got := binary.LittleEndian.Uint32(d.bytes(4)); d.err != nil || got != want {
		return errors.Join(ErrSnapshot, errors.New("the checksum is wrong or missing"), d.err)
	}
	switch _, err := d.r.ReadByte(); {
	case err == nil:
		return fmt.Errorf("%w: there are bytes after its end", ErrSnapshot)
	case !errors.Is(err, io.EOF):
		return fmt.Errorf("%w: %w", ErrSnapshot, err)
	}
	return nil
}

// table reads a shape, and describes its table without making it.
func (d *decoder) table(s *Store) (*table, error) {
	algorithm, anchor, segments, window := d.int(), d.int(), d.int(), d.int()
	shape := rule.Shape{Algorithm: rule.Algorithm(algorithm), Anchor: rule.Anchor(anchor), Segments: int(segments), Window: rule.Micros(window)}
	if limit, err := shape.Limit().Normalize(); d.err != nil || err != nil || limit.Shape() != shape {
		return nil, errors.Join(ErrSnapshot, fmt.Errorf("impossible shape %v", shape), d.err)
	}
	return describeTable(s, shape), nil
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

func (d *decoder) slot(r *record) error {
	if r.floor {
		r.set, r.depth = int(d.int()), uint(d.int())
	}
	r.hash = binary.LittleEndian.Uint64(d.bytes(8))
	d.state(r.table, &r.state)
	switch {
	case d.err != nil:
		return fmt.Errorf("%w: %w", ErrSnapshot, d.err)
	case r.floor && (r.set < 0 || r.set >= r.table.sets || r.depth > maxDepth):
		return fmt.Errorf("%w: a floor lies outside of its table", ErrSnapshot)
	case !r.floor && r.hash < reserved:
		return fmt.Errorf("%w: a reserved hash", ErrSnapshot)
	}
	return nil
}

func (d *decoder) state(t *table, s *rule.State) {
	switch t.shape.Algorithm {
	case rule.SlidingLog:
		n := d.int()
		d.check(n >= 0 && n <= rule.MaxLogQuota)
		var times []rule.Micros
		at := rule.Micros(0)
		for i := int64(0); i < n && d.err == nil; i++ {
			at += rule.Micros(d.int())
			// A clock that was set back to just after the epoch leaves times before it.
			d.check(at > -t.shape.Window && at <= rule.MaxNow && (i == 0 || at >= times[i-1] && at-times[0] < t.shape.Window))
			times = append(times, at)
		}
		if d.err == nil {
			s.Log = rule.LogOf(times, t.shape.Window, rule.MaxLogQuota)
		}
	case rule.TokenBucket:
		s.Start, s.Rest = rule.Micros(d.int()), d.int()
		d.check(s.Start >= rule.Absent && s.Start <= 2*rule.MaxNow && s.Rest >= 0 && s.Rest <= rule.MaxQuota)
	default:
		s.Start = rule.Micros(d.int())
		d.check(s.Start >= 0 && s.Start <= rule.MaxNow)
		for range t.limit.Parts() {
			count := d.int()
			d.check(count >= 0 && count <= rule.MaxQuota)
			s.Counts = append(s.Counts, count)
		}
	}
}

func (d *decoder) check(ok bool) {
	if d.err == nil && !ok {
		d.err = errors.New("a number is out of range")
	}
}
