package memstore

import (
	"encoding/binary"
	"slices"

	"github.com/slidegate/slidegate/rule"
)

// A forgotten memory is saved row by row, as it is, because the original keys of its traces are no longer known. Times are
// absolute.

// chunkRows is how many rows are copied at a time under the lock.
const chunkRows = 1024

// snapshot writes the memory. Traces are added concurrently, so it must be called after the table's keys were written: a
// key that is not among them has been forgotten before.
func (f *forgotten) snapshot(e *encoder, now rule.Micros) {
	f.mu.Lock()
	layers := slices.Clone(f.layers)
	latest := f.latest
	freed := slices.Concat(keysOf(f.freed.newer), keysOf(f.freed.older))
	f.mu.Unlock()
	e.int(int64(now))
	e.int(int64(latest))
	e.int(int64(len(layers)))
	for _, l := range layers {
		f.snapshotLayer(e, l)
	}
	e.int(int64(len(freed)))
	for _, h := range freed {
		e.bytes(binary.LittleEndian.AppendUint64(nil, h))
	}
}

func (f *forgotten) snapshotLayer(e *encoder, l *forgottenLayer) {
	f.mu.Lock()
	life := l.life
	f.mu.Unlock()
	e.int(int64(len(l.rows)))
	e.int(int64(life))
	e.int(int64(l.step))
	buf := make([]byte, 0, chunkRows*rowBytes)
	for chunk := range slices.Chunk(l.rows, chunkRows) {
		buf = buf[:0]
		f.mu.Lock()
		for i := range chunk {
			for _, word := range chunk[i] {
				buf = binary.LittleEndian.AppendUint64(buf, word)
			}
		}
		f.mu.Unlock()
		e.bytes(buf)
	}
}

func keysOf(m map[uint64]struct{}) (keys []uint64) {
	for h := range m {
		keys = append(keys, h)
	}
	return keys
}

// restore reads what snapshot wrote into an empty memory. If there is less memory than before, rows are folded into fewer.
func (f *forgotten) restore(d *decoder, now rule.Micros) {
	then, latest, layers := rule.Micros(d.Int()), rule.Micros(d.Int()), d.Int()
	d.Check(then >= 0 && then <= rule.MaxNow && latest >= 0 && latest <= rule.MaxNow && layers >= 0 && layers <= maxLayers)
	for i := int64(0); i < layers && d.err == nil; i++ {
		f.restoreLayer(d, then, now)
	}
	f.latest = min(latest, now+2*f.longestLife()) // times farther ahead were moved back
	freed := d.Int()
	d.Check(freed >= 0 && freed <= 2*maxFreed)
	for i := int64(0); i < freed && d.err == nil; i++ {
		f.freed.add(binary.LittleEndian.Uint64(d.bytes(8)), now, f.longestLife())
	}
	if d.err == nil {
		f.dropExpired(now)
	}
}

func (f *forgotten) restoreLayer(d *decoder, then, now rule.Micros) {
	rows, life, step := d.Int(), rule.Micros(d.Int()), rule.Micros(d.Int())
	d.Check(rows > 0 && rows <= maxLayer/rowBytes && rows&(rows-1) == 0)
	d.Check(life > 0 && life <= 4*rule.MaxNow && step > 0 && step <= life)
	if d.err != nil {
		return
	}
	l := f.restoredLayer(rows*rowBytes, life)
	l.step = step
	before, m := l.timeOf(then), l.timeOf(now)
	for at := int64(0); at < rows && d.err == nil; at += chunkRows {
		n := min(chunkRows, rows-at)
		buf := d.bytes(int(n) * rowBytes)
		for i := int64(0); i < n && d.err == nil; i++ {
			var r forgottenRow
			for word := range r {
				r[word] = binary.LittleEndian.Uint64(buf[(i*int64(len(r))+int64(word))*8:])
			}
			l.fold(int(at+i), &r, &before, &m)
		}
	}
}

// restoredLayer returns an empty layer of the given size, or a smaller one if less memory is granted.
func (f *forgotten) restoredLayer(size int64, life rule.Micros) *forgottenLayer {
	for requested := size; requested >= min(size, minLayer); requested /= 2 {
		if f.take(requested) {
			return f.addLayer(requested, life, true)
		}
	}
	return f.addLayer(min(size, smallLayer), life, false)
}

// fold adds the contents of a saved row, at its index in a layer that was at least as large as this one. Keys of that row
// now belong to the row given by the low bits of its index.
func (l *forgottenLayer) fold(index int, from *forgottenRow, before, m *layerTime) {
	r := &l.rows[index&(len(l.rows)-1)]
	if !from.shared() {
		from.traces(l, before, func(t *trace) {
			if l.moveBack(t, m); t.index >= m.oldest {
				l.refold(r, t, m)
			}
		})
		return
	}
	t := trace{index: from.base(before)}
	if l.moveBack(&t, m); t.index < m.oldest {
		return
	}
	r.share(l, m)
	for word := range lastWord {
		r[word] |= from[word]
	}
	count := from[lastWord] & countMask
	r.raiseShared(from[lastWord]>>codeAt&0xff, t.index, count, m)
	l.held += int64(count)
	l.updateLatest(&t)
}

// moveBack moves a time to now if it is so far ahead that a clock must have been wrong. The rule does the same with states.
func (l *forgottenLayer) moveBack(t *trace, m *layerTime) {
	if t.index > l.indexOf(m.now+l.life) {
		t.index, t.at = l.indexOf(m.now), m.now
	}
}

// refold adds a trace to a row that may be full.
func (l *forgottenLayer) refold(r *forgottenRow, t *trace, m *layerTime) {
	l.held -= r.tidy(t.index, l.exact, m)
	l.updateLatest(t)
	switch {
	case r.raise(t, l.exact, m):
		return
	case r.free(l.exact) > 0:
		r.add(t, l.exact, m)
	default:
		r.share(l, m)
		r.addShared(t, l.exact, m)
	}
	l.held++
}
