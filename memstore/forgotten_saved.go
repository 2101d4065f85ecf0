package memstore

import (
	"encoding/binary"
	"slices"

	"github.com/slidegate/slidegate/rule"
)

// A forgotten memory is recorded row by row, as it is, because the original keys of its traces are no longer known. Times are absolute.
// Traces are added meanwhile, by requests that are recorded themselves, so rows are added to what a memory has when they are replayed.

// chunkRows is how many rows are copied at a time under the lock.
const chunkRows = 1024

// save passes the memory as of now to record, in several records, each of which begins with the time and the tag.
func (f *forgotten) save(now rule.Micros, tag uint32, record func([]byte)) {
	f.mu.Lock()
	layers := slices.Clone(f.layers)
	latest := f.latest
	f.mu.Unlock()
	for _, l := range layers {
		e := encoder{buf: make([]byte, 0, chunkRows*rowBytes+128)}
		for at := 0; at < len(l.rows); at += chunkRows {
			e.begin(now, tag)
			e.int(int64(latest))
			e.int(int64(len(l.rows)))
			e.int(int64(at))
			f.mu.Lock()
			e.int(int64(l.life))
			e.int(int64(l.step))
			e.int(int64(l.latest))
			for i := at; i < min(at+chunkRows, len(l.rows)); i++ {
				for _, word := range l.rows[i] {
					e.buf = binary.LittleEndian.AppendUint64(e.buf, word)
				}
			}
			f.mu.Unlock()
			record(e.buf)
		}
	}
}

// replay adds rows that were saved then, the first of which begin a layer. If there is less memory than before, rows are folded into
// fewer.
func (f *forgotten) replay(d *decoder, then, now rule.Micros) {
	latest, rows, at, life, step := rule.Micros(d.Int()), d.Int(), d.Int(), rule.Micros(d.Int()), rule.Micros(d.Int())
	newest := rule.Micros(d.Int())
	d.Check(latest >= 0 && latest <= rule.MaxNow)
	d.Check(rows > 0 && rows <= maxLayer/rowBytes && rows&(rows-1) == 0 && at >= 0 && at < rows && at%chunkRows == 0)
	d.Check(life > 0 && life <= 4*rule.MaxNow && step > 0 && step <= life && (at == 0 || f.replayed != nil))
	if d.Failed() {
		return
	}
	f.latest = max(f.latest, min(latest, now+2*life)) // times farther ahead were moved back
	if at == 0 {
		f.replayed = f.restoredLayer(rows*rowBytes, life)
	}
	l := f.replayed
	if newest > now+life {
		newest = now // as its traces are
	}
	l.latest = max(l.latest, newest) // at once: a layer whose newest trace has expired is dropped
	l.life, l.step = max(l.life, life), step
	before, m := l.timeOf(then), l.timeOf(now)
	for i := range min(chunkRows, rows-at) {
		var r forgottenRow
		for word := range r {
			r[word] = d.Uint64()
		}
		if !d.Failed() {
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
