package memstore

import (
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/slidegate/slidegate/internal/shape"
	"github.com/slidegate/slidegate/internal/statecode"
	"github.com/slidegate/slidegate/rule"
	"github.com/slidegate/slidegate/store"
)

// How what a journal has is written: numbers are varints, times are in microseconds since the Unix epoch, keys are their hashes.

// encoder appends to bytes.
type encoder struct{ buf []byte }

// begin begins a record of a checkpoint about keys of the limit with a tag.
func (e *encoder) begin(now rule.Micros, tag uint32) {
	e.buf = e.buf[:0]
	e.int(int64(now))
	e.int(int64(tag))
}

func (e *encoder) int(n int64)   { e.buf = binary.AppendVarint(e.buf, n) }
func (e *encoder) hash(h uint64) { e.buf = binary.LittleEndian.AppendUint64(e.buf, h) }

func (e *encoder) text(s string) {
	e.int(int64(len(s)))
	e.buf = append(e.buf, s...)
}

func (e *encoder) flag(ok bool) {
	if ok {
		e.int(1)
	} else {
		e.int(0)
	}
}

func (e *encoder) limit(l *rule.Limit) {
	e.int(int64(statecode.Code(l.Algorithm)))
	e.int(int64(l.Anchor))
	e.int(int64(l.Segments))
	e.int(int64(l.Window))
	e.int(int64(l.Calendar))
	e.text(l.Zone)
	e.int(int64(l.Overlap))
	e.flag(l.CountRefused)
	e.flag(l.Lease)
	e.int(l.Quota)
	e.int(l.Burst)
	e.int(int64(l.Hold))
}

func (e *encoder) tag(t *table, limit *rule.Limit, tag uint32) {
	e.int(int64(tag))
	e.text(t.namespace)
	e.text(t.name)
	e.limit(limit)
	e.int(t.counts.held.Load())
}

func (e *encoder) state(algorithm rule.Algorithm, s *rule.State) {
	e.buf = statecode.Append(e.buf, algorithm, s)
}

// decoder reads what encoder wrote.
type decoder struct{ statecode.Reader }

func newDecoder(record []byte) *decoder { return &decoder{statecode.Reader{Rest: record}} }

func (d *decoder) time() rule.Micros {
	at := rule.Micros(d.Int())
	d.Check(at >= 0 && at <= rule.MaxNow)
	return at
}

func (d *decoder) key() uint64 {
	h := d.Uint64()
	d.Check(h >= reserved)
	return h
}

func (d *decoder) flag() bool {
	n := d.Int()
	d.Check(n == 0 || n == 1)
	return n == 1
}

func (d *decoder) text() string { return string(d.Bytes(d.Int())) }

// limit reads a limit, which must be valid.
func (d *decoder) limit() rule.Limit {
	algorithm, known := statecode.AlgorithmOf(d.Int())
	anchor, segments, window, calendar := d.Int(), d.Int(), d.Int(), d.Int()
	d.Check(known && anchor >= 0 && anchor <= int64(rule.AnchorFirst) && calendar >= 0 && calendar <= int64(rule.Year))
	l := rule.Limit{
		Algorithm: algorithm, Anchor: rule.Anchor(anchor), Segments: int(segments), Window: rule.Micros(window),
		Calendar: rule.Period(calendar), Zone: d.text(),
	}
	overlap := d.Int()
	d.Check(overlap >= 0 && overlap <= int64(rule.OverlapWhole))
	l.Overlap, l.CountRefused, l.Lease = rule.Overlap(overlap), d.flag(), d.flag()
	l.Quota, l.Burst, l.Hold = d.Int(), d.Int(), rule.Micros(d.Int())
	if d.Failed() {
		return rule.Limit{}
	}
	if limit, err := l.Normalize(); err != nil || limit != l {
		d.Fail(errors.Join(fmt.Errorf("invalid limit %s", shape.Name(&l)), err))
	}
	return l
}

// state reads the state of a key, into memory of its own.
func (d *decoder) state(l *rule.Limit) (s rule.State) {
	statecode.Read(&d.Reader, l, &s)
	return s
}

// maxRecord is the length of the longest record of a settlement: what happened, and two numbers for each charge.
const maxRecord = 1 + 2*maxCharges

func (e *encoder) settlement(key settlementKey, life settlementLife, record []int64) {
	e.hash(key.address)
	e.hash(key.id)
	e.hash(life.group)
	e.int(int64(life.certain))
	e.int(int64(life.expires))
	e.int(int64(len(record)))
	for _, n := range record {
		e.int(n)
	}
}

func (d *decoder) settlement() (key settlementKey, life settlementLife, record []int64) {
	key = settlementKey{d.Uint64(), d.Uint64()}
	life.group = d.Uint64()
	life.certain, life.expires = rule.Micros(d.Int()), rule.Micros(d.Int())
	n := d.Int()
	d.Check(life.certain > 0 && life.certain <= life.expires && life.expires <= 4*rule.MaxNow && n >= 1 && n <= maxRecord)
	for i := int64(0); i < n && !d.Failed(); i++ {
		number := d.Int()
		d.Check(number >= -rule.MaxQuota && number <= rule.MaxQuota)
		record = append(record, number)
	}
	return key, life, record
}

func (e *encoder) document(name string, d document) {
	e.text(name)
	e.hash(d.revision)
	e.text(string(d.text))
}

func (d *decoder) document() (name string, doc document) {
	name = d.text()
	doc.revision = d.Uint64()
	doc.text = []byte(d.text())
	d.Check(doc.revision != 0 && len(doc.text) <= store.MaxDocument)
	return name, doc
}
