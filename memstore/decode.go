package memstore

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"hash"
	"io"
	"strconv"

	"github.com/slidegate/slidegate/internal/shape"
	"github.com/slidegate/slidegate/internal/statecode"
	"github.com/slidegate/slidegate/rule"
	"github.com/slidegate/slidegate/store"
)

// decoder reads what encoder wrote. After the first error it returns zeros.
type decoder struct {
	r   *bufio.Reader
	sum hash.Hash32
	err error
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
	found, err := strconv.Atoi(string(digits))
	switch {
	case d.err != nil:
		return fmt.Errorf("%w: %w", ErrSnapshot, d.err)
	case err != nil || found < 1 || len(digits) == 10:
		return fmt.Errorf("%w: invalid version %q", ErrSnapshot, digits)
	case found > version:
		return fmt.Errorf("%w: its format is %d, but this program reads %d; upgrade this program", ErrNewer, found, version)
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

// ReadByte implements io.ByteReader over the bytes covered by the checksum.
func (d *decoder) ReadByte() (byte, error) {
	b, err := d.r.ReadByte()
	if err == nil {
		d.sum.Write([]byte{b})
	}
	return b, err
}

// Int reads a number. With Uint64, Check and Failed it implements statecode.Source.
func (d *decoder) Int() int64 {
	if d.err != nil {
		return 0
	}
	n, err := binary.ReadVarint(d)
	d.err = err
	return n
}

// saved is the content of a snapshot that is still live.
type saved struct {
	limits      []*savedLimit
	settlements []savedSettlement
	documents   map[string]document
}

// savedLimit is one limit of a snapshot.
type savedLimit struct {
	id        tableID
	limit     rule.Limit // its shape
	keys      []savedKey
	forgotten *forgotten
}

// records reads all records, and verifies the checksum that follows them.
func (d *decoder) records(s *Store) (*saved, error) {
	now := s.clock.read()
	all := &saved{documents: map[string]document{}}
	var limit *savedLimit // the last limit
	for kind := d.Int(); kind != recordEnd || d.err != nil; kind = d.Int() {
		switch {
		case d.err != nil:
		case kind == recordLimit:
			limit = d.limit()
			all.limits = append(all.limits, limit)
		case kind == recordKey && limit != nil:
			if key := d.key(&limit.limit); limit.limit.Expires(&key.state) > now {
				limit.keys = append(limit.keys, key)
			}
		case kind == recordForgotten && limit != nil:
			limit.forgotten = newForgotten(limit.limit, s.reserveForgotten, s.releaseForgotten)
			limit.forgotten.restore(d, now)
		case kind == recordSettlement:
			if settled := d.settlement(); settled.life.expires > now {
				all.settlements = append(all.settlements, settled)
			}
		case kind == recordDocument:
			d.document(all.documents)
		default:
			d.fail(fmt.Errorf("unknown record %d", kind))
		}
		if d.err != nil {
			return nil, fmt.Errorf("%w: %w", ErrSnapshot, d.err)
		}
	}
	return all, d.end()
}

// Failed reports whether an error has occurred.
func (d *decoder) Failed() bool { return d.err != nil }

func (d *decoder) fail(err error) {
	if d.err == nil {
		d.err = err
	}
}

// end verifies the checksum that follows the records, and that nothing follows the checksum.
func (d *decoder) end() error {
	want := d.sum.Sum32()
	if got := binary.LittleEndian.Uint32(d.bytes(4)); d.err != nil || got != want {
		return errors.Join(ErrSnapshot, errors.New("the checksum is wrong or missing"), d.err)
	}
	switch _, err := d.r.ReadByte(); {
	case err == nil:
		return fmt.Errorf("%w: unexpected bytes after its end", ErrSnapshot)
	case !errors.Is(err, io.EOF):
		return fmt.Errorf("%w: %w", ErrSnapshot, err)
	}
	return nil
}

// longestZone exceeds the name of any time zone, and longestName any reasonable name of a limit.
const (
	longestZone = 255
	longestName = 1 << 20
)

// Uint64 reads eight bytes.
func (d *decoder) Uint64() uint64 { return binary.LittleEndian.Uint64(d.bytes(8)) }

func (d *decoder) text(longest int64) string {
	n := d.Int()
	d.Check(n >= 0 && n <= longest)
	if d.err != nil {
		return ""
	}
	return string(d.bytes(int(n)))
}

// limit reads the name and the shape of a limit.
func (d *decoder) limit() *savedLimit {
	namespace, name := d.text(longestName), d.text(longestName)
	l := &savedLimit{limit: d.shape()}
	if d.err == nil {
		l.id = idOf(store.Bind(namespace, name, "", l.limit))
	}
	return l
}

// shape reads a shape, which must be valid.
func (d *decoder) shape() rule.Limit {
	code, anchor, segments, window := d.Int(), d.Int(), d.Int(), d.Int()
	algorithm, known := statecode.AlgorithmOf(code)
	d.Check(known && anchor >= 0 && anchor <= int64(rule.AnchorFirst))
	calendar := d.Int()
	d.Check(calendar >= 0 && calendar <= int64(rule.Year))
	saved := rule.Limit{
		Algorithm: algorithm, Anchor: rule.Anchor(anchor), Segments: int(segments), Window: rule.Micros(window),
		Calendar: rule.Period(calendar), Zone: d.text(longestZone),
	}
	if algorithm == rule.DefaultAlgorithm {
		saved.Overlap = rule.OverlapWhole // always
	}
	if d.err != nil {
		return rule.Limit{}
	}
	saved = shape.Of(&saved)
	if limit, err := saved.Normalize(); err != nil || limit != saved {
		d.fail(errors.Join(fmt.Errorf("invalid shape %s", shape.Name(&saved)), err))
	}
	return saved
}

// key reads the hash and the state of a key.
func (d *decoder) key(l *rule.Limit) (k savedKey) {
	k.hash = d.Uint64()
	d.Check(k.hash >= reserved)
	statecode.Read(d, l, &k.state)
	return k
}

// maxRecord is the length of the longest record of a settlement: what happened, and two numbers for each charge.
const maxRecord = 1 + 2*maxCharges

// settlement reads one settlement.
func (d *decoder) settlement() savedSettlement {
	var s savedSettlement
	s.key.address = d.Uint64()
	s.key.id = d.Uint64()
	s.life.group = d.Uint64()
	s.life.certain, s.life.expires = rule.Micros(d.Int()), rule.Micros(d.Int())
	n := d.Int()
	d.Check(s.life.certain > 0 && s.life.certain <= s.life.expires && s.life.expires <= 4*rule.MaxNow && n >= 1 && n <= maxRecord)
	for i := int64(0); i < n && d.err == nil; i++ {
		number := d.Int()
		d.Check(number >= -rule.MaxQuota && number <= rule.MaxQuota)
		s.record = append(s.record, number)
	}
	return s
}

// Check records an error if ok is false, which means that a number is out of range.
func (d *decoder) Check(ok bool) {
	if d.err == nil && !ok {
		d.err = errors.New("a number is out of range")
	}
}
