package memstore

import (
	"slices"
	"sync"
	"sync/atomic"

	"github.com/slidegate/slidegate/internal/summary"
	"github.com/slidegate/slidegate/rule"
)

// forgotten remembers the keys of one limit that lost their slots while they still counted: for each key, how many units
// and as of when. It is small, so it is not exact, but it errs only toward refusal: it may mistake a key for one that it
// remembers, or return more units than there were, or a later time. It is safe for concurrent use.
//
// It consists of layers of rows, each layer larger than the one before. A key has two rows in each layer. A trace goes into
// the first layer in which one of them has space, into the emptier one, and never moves. So when fewer keys are forgotten,
// the large layers are no longer written to, and are dropped when the last of their traces has expired.
type forgotten struct {
	limit     rule.Limit // of the table's shape
	exact     bool       // times must not be rounded, because windows start with the first request
	digits    uint       // precision of the codes of units
	take      func(bytes int64) bool
	give      func(bytes int64)
	hasLayers atomic.Bool // whether there are layers

	mu      sync.Mutex
	layers  []*forgottenLayer // smallest first
	latest  rule.Micros       // the latest time that was remembered
	waiting int               // how many more traces to add before requesting memory again
	touched uint64
	clock   layerTime // the last one that was used
	freed   freedKeys

	replayed *forgottenLayer // to which the rows are added that are replayed
}

const (
	rowBytes        = 64
	firstLayer      = 16 << 10 // bytes of the first layer
	quadrupleUpTo   = 4 << 20  // up to this size the next layer is four times as large, so that there are few; above it, twice as large
	maxLayer        = rowBytes << rowIndexBits
	minLayer        = 4 << 10
	smallLayer      = 1 << 10 // bytes of the first layer if no memory is granted
	maxLayers       = 16
	requestInterval = 1024 // how many traces to add before requesting memory again, after none was granted

	rowIndexBits = 21 // a hash contains two row indexes, and above them the fingerprint
	stepsPerLife = 100
)

// forgottenLayer is a set of rows of the same age.
type forgottenLayer struct {
	rows    []forgottenRow // their number is a power of two
	exact   bool
	granted bool        // its memory was granted, and must be released
	life    rule.Micros // the least time that a trace counts after its own time
	step    rule.Micros // times are rounded up to a multiple of this
	latest  rule.Micros // the latest time of a trace, rounded up
	held    int64       // number of traces, some of which may have expired
}

// newForgotten returns an empty memory for the keys of a table. It calls take to request memory, and give to release it,
// both with its lock held.
func newForgotten(limit rule.Limit, take func(bytes int64) bool, give func(bytes int64)) *forgotten {
	f := &forgotten{limit: limit, exact: limit.Anchor == rule.AnchorFirst, digits: countDigits, take: take, give: give}
	if limit.Algorithm == rule.SlidingLog || limit.Algorithm == rule.InFlight {
		f.digits = logDigits
	}
	return f
}

// remember stores the summary of a key with hash h. It must be called before the key's slot is given to another key.
func (f *forgotten) remember(h uint64, m summary.Summary, now rule.Micros) {
	if m.Units == 0 || m.Expires <= now {
		return
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.dropExpired(now)
	f.freed.remove(h)
	f.latest = max(f.latest, m.At)
	if f.exact {
		f.removeExact(h)
	}
	f.touch(h)
	t := trace{hash: h, code: codeOf(m.Units, f.digits), at: m.At}
	life := f.lifeOf(m)
	for _, l := range f.layers {
		if l.life >= life && l.put(&t, f.timeOf(l, now)) {
			return
		}
	}
	if l := f.grow(life); l != nil && l.put(&t, f.timeOf(l, now)) {
		return
	}
	l := f.squeezeLayer(h)
	l.life = max(l.life, life)
	l.squeeze(&t, f.timeOf(l, now))
}

// touch reads a word of every row in which the key may be. These reads do not depend on one another, so the rows are
// fetched from memory in parallel.
func (f *forgotten) touch(h uint64) {
	for _, l := range f.layers {
		a, b := l.rowsOf(h)
		f.touched += a[0] + b[0]
	}
}

// squeezeLayer returns a layer for a key for which there is no space: one of the large layers, chosen in proportion to their
// size.
func (f *forgotten) squeezeLayer(h uint64) *forgottenLayer {
	least := len(f.layers[len(f.layers)-1].rows) / 4
	var rows uint64
	for _, l := range f.layers {
		if len(l.rows) >= least {
			rows += uint64(len(l.rows))
		}
	}
	at := h * 0x9e3779b97f4a7c15 >> 32 * rows >> 32 // the bits of h itself choose the row
	for _, l := range f.layers {
		if len(l.rows) < least {
			continue
		}
		if at < uint64(len(l.rows)) {
			return l
		}
		at -= uint64(len(l.rows))
	}
	return f.layers[len(f.layers)-1]
}

// lifeOf returns how long a summary counts, or slightly longer so that few layers are needed. Only token buckets have
// different lives.
func (f *forgotten) lifeOf(m summary.Summary) rule.Micros {
	switch {
	case f.limit.Calendar != 0:
		return f.limit.Window
	case f.limit.Algorithm != rule.TokenBucket:
		return m.Expires - m.At
	}
	life := f.limit.Window
	for life < m.Expires-m.At {
		life *= 4
	}
	return life
}

// recall returns what is known of a key that has no slot: at least what was remembered of it, or nothing.
func (f *forgotten) recall(h uint64, now rule.Micros) (m summary.Summary, found bool) {
	if !f.hasLayers.Load() {
		return summary.Summary{}, false
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.dropExpired(now)
	f.touch(h)
	m = f.find(h, now)
	return m, m.Units > 0 && !f.freed.has(h)
}

func (f *forgotten) find(h uint64, now rule.Micros) (m summary.Summary) {
	for _, l := range f.layers {
		code, at := l.find(h, f.timeOf(l, now))
		if code == 0 {
			continue
		}
		at = min(at, max(now, f.latest)) // no remembered time is later: otherwise lives would grow whenever keys are recalled
		m.Units = max(m.Units, unitsOf(code, f.digits))
		m.At = max(m.At, at)
		m.Expires = max(m.Expires, at+l.life)
	}
	if m.Units == 0 {
		return summary.Summary{}
	}
	if f.limit.Calendar != 0 {
		if _, m.Expires = f.limit.Bounds(m.At); m.Expires <= now {
			return summary.Summary{}
		}
	}
	return m
}

// reset frees a key, and reports whether anything was remembered of it. Its traces stay, because other keys may share them; the key itself is
// no longer looked up, until it is forgotten again.
func (f *forgotten) reset(h uint64, now rule.Micros) (freed bool) {
	if !f.hasLayers.Load() {
		return false
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.dropExpired(now)
	freed = f.find(h, now).Units > 0
	if f.exact {
		f.removeExact(h)
	}
	if f.find(h, now).Units > 0 {
		f.freed.add(h, now, f.longestLife())
	}
	return freed
}

// expire releases the memory of layers that have expired by now. Other methods do so too; this one is for when none of them
// is called.
func (f *forgotten) expire(now rule.Micros) {
	if !f.hasLayers.Load() {
		return
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.dropExpired(now)
}

// held returns the approximate number of keys that are remembered.
func (f *forgotten) held() (n int64) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, l := range f.layers {
		n += l.held
	}
	return n
}

// bytes returns how much memory the layers take.
func (f *forgotten) bytes() (n int64) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, l := range f.layers {
		n += l.bytes()
	}
	return n
}

func (f *forgotten) dropExpired(now rule.Micros) {
	expired := func(l *forgottenLayer) bool { return l.latest+l.life <= now }
	if !slices.ContainsFunc(f.layers, expired) {
		return
	}
	f.layers = slices.DeleteFunc(f.layers, func(l *forgottenLayer) bool {
		if !expired(l) {
			return false
		}
		if l.granted {
			f.give(l.bytes())
		}
		return true
	})
	f.waiting = 0
	if f.hasLayers.Store(len(f.layers) > 0); len(f.layers) == 0 {
		f.layers, f.freed = nil, freedKeys{}
	}
}

// removeExact removes a key from all layers, for exact rows, in which a trace belongs to one key only.
func (f *forgotten) removeExact(h uint64) {
	for _, l := range f.layers {
		a, b := l.rowsOf(h)
		if a.remove(h) || b.remove(h) {
			l.held--
		}
	}
}

func (f *forgotten) longestLife() (life rule.Micros) {
	for _, l := range f.layers {
		life = max(life, l.life)
	}
	return life
}

// grow adds a layer, as large as memory is granted for. It returns nil if none is granted, unless it would be the first
// layer.
func (f *forgotten) grow(life rule.Micros) *forgottenLayer {
	if len(f.layers) >= maxLayers {
		return nil
	}
	if f.waiting > 0 {
		f.waiting--
		return nil
	}
	preferred := f.nextSize(life)
	for size := preferred; size >= max(minLayer, preferred/8); size /= 2 { // each layer costs time and adds false positives
		if f.take(size) {
			return f.addLayer(size, life, true)
		}
	}
	if len(f.layers) == 0 {
		return f.addLayer(smallLayer, life, false)
	}
	f.waiting = requestInterval
	return nil
}

// nextSize returns the size of the layer to add when those of this life are full.
func (f *forgotten) nextSize(life rule.Micros) int64 {
	var largest int64
	for _, l := range f.layers {
		if l.life >= life {
			largest = max(largest, l.bytes())
		}
	}
	switch {
	case largest < quadrupleUpTo:
		return min(max(firstLayer, 4*largest), quadrupleUpTo)
	default:
		return min(2*largest, maxLayer)
	}
}

func (f *forgotten) addLayer(size int64, life rule.Micros, granted bool) *forgottenLayer {
	l := &forgottenLayer{rows: make([]forgottenRow, size/rowBytes), exact: f.exact, granted: granted, life: life, step: f.stepOf(life)}
	at, _ := slices.BinarySearchFunc(f.layers, l, func(a, b *forgottenLayer) int { return len(a.rows) - len(b.rows) })
	f.layers = slices.Insert(f.layers, at, l)
	f.hasLayers.Store(true)
	return l
}

// stepOf returns the step of a layer: the length of a part if parts start by the clock, so that nothing is rounded,
// otherwise a hundredth of its life. Calendar periods are longer than that, so a time is rounded within its period.
func (f *forgotten) stepOf(life rule.Micros) rule.Micros {
	if parts := rule.Micros(f.limit.Parts()); parts > 0 && f.limit.Calendar == 0 && !f.exact {
		return life / parts
	}
	return max(1, (life+stepsPerLife-1)/stepsPerLife)
}

func (l *forgottenLayer) bytes() int64 { return int64(len(l.rows)) * rowBytes }

// timeOf returns now as a layer sees it. Most layers share the same values, and divisions are slow.
func (f *forgotten) timeOf(l *forgottenLayer, now rule.Micros) *layerTime {
	if c := &f.clock; c.now != now || c.step != l.step || c.dead != now-l.life {
		*c = l.timeOf(now)
	}
	return &f.clock
}

func (l *forgottenLayer) timeOf(now rule.Micros) layerTime {
	m := layerTime{now: now, step: l.step, index: floorOf(now, l.step), dead: now - l.life}
	m.oldest = floorOf(m.dead, l.step) + 1
	return m
}

func floorOf(at, step rule.Micros) int64 {
	if at < 0 {
		return -int64((-at + step - 1) / step)
	}
	return int64(at / step)
}

// setIndex sets the index of a trace's time, unless another layer with the same step has done so.
func (l *forgottenLayer) setIndex(t *trace) {
	if t.step != l.step {
		t.step, t.index = l.step, l.indexOf(t.at)
	}
}

// indexOf rounds a time up.
func (l *forgottenLayer) indexOf(at rule.Micros) int64 { return floorOf(at+l.step-1, l.step) }

// rowsOf returns the two rows in which a key can be; they may be the same row.
func (l *forgottenLayer) rowsOf(h uint64) (a, b *forgottenRow) {
	mask := uint64(len(l.rows) - 1)
	return &l.rows[h&mask], &l.rows[h>>rowIndexBits&mask]
}

// find returns the largest code and time of a key, or a code of 0.
func (l *forgottenLayer) find(h uint64, m *layerTime) (code uint8, at rule.Micros) {
	a, b := l.rowsOf(h)
	for _, r := range [...]*forgottenRow{a, b} {
		if l.exact && !r.shared() {
			if c, t := r.findExact(h, m); c != 0 {
				code, at = max(code, c), max(at, t)
			}
		} else if c, index := r.find(h>>(64-printBits), m); c != 0 {
			code, at = max(code, c), max(at, rule.Micros(index)*l.step)
		}
	}
	return code, at
}

// put adds a trace, and reports whether there was space.
func (l *forgottenLayer) put(t *trace, m *layerTime) bool {
	l.setIndex(t)
	a, b := l.rowsOf(t.hash)
	l.held -= a.tidy(t.index, l.exact, m) + b.tidy(t.index, l.exact, m)
	if a.raise(t, l.exact, m) || b.raise(t, l.exact, m) {
		l.updateLatest(t)
		return true
	}
	room, other := a.free(l.exact), b.free(l.exact)
	if other > room {
		a, room = b, other
	}
	if room == 0 {
		return false
	}
	a.add(t, l.exact, m)
	l.held++
	l.updateLatest(t)
	return true
}

// squeeze adds a trace to a row that is full.
func (l *forgottenLayer) squeeze(t *trace, m *layerTime) {
	l.setIndex(t)
	a, b := l.rowsOf(t.hash)
	if b.load() < a.load() {
		a = b
	}
	a.share(l, m)
	a.addShared(t, l.exact, m)
	l.held++
	l.updateLatest(t)
}

// load returns how full a row is: of two full rows, the one with the lower load should take another trace.
func (r *forgottenRow) load() uint64 {
	if r.shared() {
		return r[lastWord] & countMask
	}
	return 0
}

func (l *forgottenLayer) updateLatest(t *trace) {
	l.latest = max(l.latest, rule.Micros(t.index)*l.step)
}

// freedKeys are the keys that were reset. They are kept in two generations. The older one is dropped when the newer is
// full or as old as anything remembered, so a key stays free for less time only if very many keys are freed.
type freedKeys struct {
	newer, older map[uint64]struct{}
	since        rule.Micros
}

// maxFreed is the size of a generation.
const maxFreed = 4096

func (k *freedKeys) add(h uint64, now, life rule.Micros) {
	if k.newer == nil || len(k.newer) >= maxFreed || now >= k.since+life {
		k.newer, k.older, k.since = map[uint64]struct{}{}, k.newer, now
	}
	k.newer[h] = struct{}{}
}

func (k *freedKeys) has(h uint64) bool {
	_, newer := k.newer[h]
	_, older := k.older[h]
	return newer || older
}

func (k *freedKeys) remove(h uint64) {
	delete(k.newer, h)
	delete(k.older, h)
}
