package memstore

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"hash"
	"io"
	"strconv"

	"github.com/slidegate/slidegate/rule"
)

// decoder reads what encoder wrote. After the first error it returns zeros.
type decoder struct {
	r       *bufio.Reader
	sum     hash.Hash32
	version int
	sets    int // of the last shape, when it was saved
	err     error
}

// begin reads the magic text and the version.
func (d *decoder) begin() error {
	if got := d.bytes(len(magic)); d.err == nil && string(got) != magic {
		return fmt.Errorf("%w: it begins with %q", ErrSnapshot, got)
	}
	var digits []byte
	for next := d.bytes(1)[0]; d.err == nil && next != '\n' && len(digits) < 10; next = d.bytes(1)[0] {
		digits = append(digits, next)
	}
	var err error
	d.version, err = strconv.Atoi(string(digits))
	switch {
	case d.err != nil:
		return fmt.Errorf("%w: %w", ErrSnapshot, d.err)
	case err != nil || d.version < 1 || len(digits) == 10:
		return fmt.Errorf("%w: its version is %q", ErrSnapshot, digits)
	case d.version > version:
		return fmt.Errorf("%w: its format is %d and this program reads up to %d; upgrade this program", ErrNewer, d.version, version)
	}
	return nil
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
func (d *decoder) records(s *Store) (all []record, settlements []savedSettlement, err error) {
	var t *table // of the last shape; it holds nothing yet
	now := s.now()
	for kind := d.int(); kind != recordEnd || d.err != nil; kind = d.int() {
		switch {
		case d.err != nil:
		case kind == recordShape:
			t, err = d.table(s)
		case (kind == recordKey || kind == recordFloor) && t != nil:
			r := record{table: t, floor: kind == recordFloor, sets: d.sets}
			if err = d.slot(&r); err == nil && t.limit.Expires(&r.state) > now {
				all = append(all, r)
			}
		case kind == recordSettlement && d.version >= 2:
			if settled := d.settlement(); settled.expires > now {
				settlements = append(settlements, settled)
			}
		default:
			err = fmt.Errorf("%w: unknown record %d", ErrSnapshot, kind)
		}
		if d.err != nil {
			err = fmt.Errorf("%w: %w", ErrSnapshot, d.err)
		}
		if err != nil {
			return nil, nil, err
		}
	}
	return all, settlements, d.end()
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

// bucketSets1 is how many sets a segment of token buckets had in version 1, in which a bucket took two words.
const bucketSets1 = segmentBytes / (setSlots * 8 * 3)

// longestZone is more than the name of any time zone has.
const longestZone = 255

// table reads a shape, and describes its table without making it.
func (d *decoder) table(s *Store) (*table, error) {
	code, anchor, segments, window := d.int(), d.int(), d.int(), d.int()
	algorithm, known := rule.AlgorithmOf(code)
	d.check(known && anchor >= 0 && anchor <= int64(rule.First))
	shape := rule.Shape{Algorithm: algorithm, Anchor: rule.Anchor(anchor), Segments: int(segments), Window: rule.Micros(window)}
	var sets int64
	if d.version >= 2 {
		calendar, zone := d.int(), d.int()
		d.check(calendar >= 0 && calendar <= int64(rule.Year) && zone >= 0 && zone <= longestZone)
		if d.err == nil {
			shape.Calendar, shape.Zone = rule.Period(calendar), string(d.bytes(int(zone)))
		}
		sets = d.int()
		d.check(sets >= 1 && sets <= packedSets)
	}
	if d.err != nil {
		return nil, fmt.Errorf("%w: %w", ErrSnapshot, d.err)
	}
	if limit, err := shape.Limit().Normalize(); err != nil || limit.Shape() != shape {
		return nil, errors.Join(ErrSnapshot, fmt.Errorf("impossible shape %v", shape), err)
	}
	t := describeTable(s, shape)
	switch d.sets = int(sets); {
	case d.version >= 2:
	case algorithm == rule.TokenBucket:
		d.sets = bucketSets1
	default:
		d.sets = t.sets
	}
	return t, nil
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
	case r.floor && (r.set < 0 || r.set >= r.sets || r.depth > maxDepth):
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
		d.bucket(t, s)
	case rule.InFlight:
		d.slots(t, s)
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

// bucket reads a token bucket as this version writes it, or as version 1 did.
func (d *decoder) bucket(t *table, s *rule.State) {
	if d.version == 1 {
		*s = rule.LegacyBucket(rule.Micros(d.int()), d.int())
	} else {
		*s = rule.State{Start: rule.Micros(d.int()), Until: rule.Micros(d.int()), Missing: d.int(), Rest: d.int()}
	}
	if legacy := rule.LegacyBucket(s.Start, s.Rest); s.Missing == legacy.Missing {
		d.check(s.Start >= rule.Absent && s.Start <= 2*rule.MaxNow && s.Rest >= 0 && s.Rest <= rule.MaxQuota && s.Until == 0)
		return
	}
	d.check(s.Start >= 0 && s.Start <= 2*rule.MaxNow && s.Until >= s.Start && s.Until <= 4*rule.MaxNow)
	d.check(s.Missing >= 0 && s.Missing <= 2*rule.MaxQuota && s.Rest >= 0 && rule.Micros(s.Rest) < t.shape.Window)
}

// slots reads what an in-flight limit holds.
func (d *decoder) slots(t *table, s *rule.State) {
	n := d.int()
	d.check(n >= 0 && n <= rule.MaxLogQuota)
	for i := int64(0); i < n && d.err == nil; i++ {
		slot := rule.Slot{ID: rule.ID(binary.LittleEndian.Uint64(d.bytes(8))), Renewed: rule.Micros(d.int())}
		d.check(slot.Renewed > -t.shape.Window && slot.Renewed <= rule.MaxNow && (i == 0 || slot.Renewed >= s.Slots[i-1].Renewed))
		s.Slots = append(s.Slots, slot)
	}
}

// settlement reads one settlement.
func (d *decoder) settlement() savedSettlement {
	var s savedSettlement
	s.key.address = binary.LittleEndian.Uint64(d.bytes(8))
	s.key.id = binary.LittleEndian.Uint64(d.bytes(8))
	s.expires = rule.Micros(d.int())
	n := d.int()
	d.check(s.expires > 0 && s.expires <= 4*rule.MaxNow && n >= 1 && n <= MaxCharges)
	for i := int64(0); i < n && d.err == nil; i++ {
		back := d.int()
		d.check(back >= -rule.MaxQuota && back <= rule.MaxQuota)
		s.back = append(s.back, back)
	}
	return s
}

func (d *decoder) check(ok bool) {
	if d.err == nil && !ok {
		d.err = errors.New("a number is out of range")
	}
}
