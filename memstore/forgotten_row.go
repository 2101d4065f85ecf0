package memstore

import (
	"math/bits"

	"github.com/slidegate/slidegate/rule"
)

// forgottenRow is one cache line of a forgotten memory. The zero value is empty. It has one of three forms:
//
//   - short: fifteen traces of 32 bits, and the base of their times. A trace is a fingerprint of the key (17 bits), a time
//     (7 bits) and a code of the units (8 bits), which is 0 if there is no trace.
//   - exact: four pairs of words, the hash of a key and its time with the code of its units, for keys whose time must not be
//     rounded.
//   - shared: a Bloom filter of fingerprints, and one time and one code for all of them, the largest so far. A row becomes
//     shared when it is full and there is no memory for more, so it never runs out of space: as it fills, it only mistakes
//     more and more keys for forgotten ones.
//
// Times are indexes: multiples of the layer's step. Words contain 31 bits of them, which are completed from the clock.
type forgottenRow [8]uint64

const (
	printBits, stampBits = 17, 7
	printMask            = uint64(1)<<printBits - 1
	maxStamp             = int64(1)<<stampBits - 1
	stampAt, codeAt      = printBits, printBits + stampBits // in a trace; the code also in the last word of a shared row
	traceMask            = uint64(1)<<32 - 1

	shortTraces = 15

	lastWord   = 7
	sharedFlag = uint64(1) << 63
	indexAt    = 32 // in the last word: the base of the times of a short row, or the time of a shared one
	indexMask  = uint64(1)<<31 - 1
	countMask  = uint64(1)<<24 - 1 // in the last word of a shared row: how many traces it has taken

	filterBits   = 64 * lastWord
	filterHashes = 4
)

// trace is one forgotten key.
type trace struct {
	hash  uint64
	code  uint8
	at    rule.Micros // the exact time
	index int64       // the time rounded up to a multiple of step
	step  rule.Micros // the layer's step
}

func (t *trace) print() uint64 { return t.hash >> (64 - printBits) }

// layerTime is the current time as the rows of one layer see it.
type layerTime struct {
	now    rule.Micros
	step   rule.Micros // the layer's step
	index  int64       // the index of now, rounded down
	oldest int64       // the earliest index that counts
	dead   rule.Micros // the latest exact time that does not count
}

// indexOf completes an index from its low 31 bits.
func (m *layerTime) indexOf(low uint64) int64 {
	const half = 1 << 30
	return m.index - half + int64((low-uint64(m.index)+half)&indexMask)
}

func (r *forgottenRow) shared() bool { return r[lastWord]&sharedFlag != 0 }

// base returns the index that the times of a row are relative to, or the index of a shared row.
func (r *forgottenRow) base(m *layerTime) int64 { return m.indexOf(r[lastWord] >> indexAt) }

func (r *forgottenRow) setBase(index int64) {
	r[lastWord] = r[lastWord]&(sharedFlag|traceMask) | uint64(index)&indexMask<<indexAt
}

func (r *forgottenRow) trace(i int) uint64 { return r[i/2] >> (32 * (i % 2)) & traceMask }

func (r *forgottenRow) setTrace(i int, trace uint64) {
	shift := 32 * (i % 2)
	r[i/2] = r[i/2]&^(traceMask<<shift) | trace<<shift
}

// find returns the code and the index of a fingerprint in a short or shared row, or a code of 0.
func (r *forgottenRow) find(print uint64, m *layerTime) (code uint8, index int64) {
	if r.shared() {
		if index = r.base(m); index < m.oldest || !r.mayContain(print) {
			return 0, 0
		}
		return uint8(r[lastWord] >> codeAt), index
	}
	i := r.printIndex(print)
	if i < 0 {
		return 0, 0
	}
	trace := r.trace(i)
	if index = r.base(m) + int64(trace>>stampAt)&maxStamp; index < m.oldest {
		return 0, 0
	}
	return uint8(trace >> codeAt), index
}

// printIndex returns the index of a fingerprint in a short row, or -1. No two traces of a row have the same fingerprint.
func (r *forgottenRow) printIndex(print uint64) int {
	const both = printMask | printMask<<32
	pattern := print | print<<32
	for i, word := range r {
		differ := (word ^ pattern) & both
		if differ&traceMask == 0 && word&traceMask>>codeAt != 0 {
			return 2 * i
		}
		if differ>>32 == 0 && i < lastWord && word>>(32+codeAt) != 0 {
			return 2*i + 1
		}
	}
	return -1
}

// findExact returns the code and the time of a hash in an exact row, or a code of 0.
func (r *forgottenRow) findExact(hash uint64, m *layerTime) (code uint8, at rule.Micros) {
	for i := 0; i < len(r); i += 2 {
		if at = exactTime(r[i+1]); r[i] == hash && uint8(r[i+1]) != 0 && at > m.dead {
			return uint8(r[i+1]), at
		}
	}
	return 0, 0
}

// The second word of an exact trace contains the time above the code. Times take 53 bits, so its highest bit is free to
// distinguish the forms.
func exactTime(word uint64) rule.Micros { return rule.Micros(word >> 8) }
func exactWord(t *trace) uint64         { return uint64(t.at)<<8 | uint64(t.code) }

// tidy drops expired traces and makes space for a time that is to be added. It returns how many traces it dropped.
func (r *forgottenRow) tidy(index int64, exact bool, m *layerTime) (dropped int64) {
	if r.shared() {
		if r.base(m) >= m.oldest {
			return 0
		}
		dropped = int64(r[lastWord] & countMask)
		*r = forgottenRow{}
	}
	if !exact {
		return dropped + r.rebase(index, m)
	}
	for i := 0; i < len(r); i += 2 {
		if uint8(r[i+1]) != 0 && exactTime(r[i+1]) <= m.dead {
			r[i], r[i+1] = 0, 0
			dropped++
		}
	}
	return dropped
}

// rebase makes the times of a short row relative to the earliest one that is still needed. If they are too far apart for
// the few bits that they have, early times are moved later.
func (r *forgottenRow) rebase(index int64, m *layerTime) (dropped int64) {
	if *r == (forgottenRow{}) {
		r.setBase(max(m.oldest, index-maxStamp))
		return 0
	}
	base := r.base(m)
	if base >= m.oldest && index-base <= maxStamp {
		return 0 // nothing can have expired
	}
	next := max(base, m.oldest, index-maxStamp)
	for i := range shortTraces {
		trace := r.trace(i)
		if trace == 0 {
			continue
		}
		at := base + int64(trace>>stampAt)&maxStamp
		if at < m.oldest {
			r.setTrace(i, 0)
			dropped++
			continue
		}
		r.setTrace(i, trace&^(uint64(maxStamp)<<stampAt)|uint64(max(0, at-next))<<stampAt)
	}
	r.setBase(next)
	return dropped
}

// free returns how many traces can be added to a tidy row.
func (r *forgottenRow) free(exact bool) (n int) {
	switch {
	case r.shared():
		return 0
	case exact:
		for i := 1; i < len(r); i += 2 {
			if r[i] == 0 {
				n++
			}
		}
		return n
	}
	for _, word := range r {
		if word&traceMask == 0 {
			n++
		}
		if word>>32 == 0 {
			n++
		}
	}
	if r[lastWord]>>32 == 0 {
		n-- // the last entry is not a trace
	}
	return n
}

// raise makes a row that contains the trace's key cover the trace, and reports whether the row contains it. For a
// shared row it only reports whether the row covers the trace already.
func (r *forgottenRow) raise(t *trace, exact bool, m *layerTime) bool {
	if r.shared() {
		code, index := r.find(t.print(), m)
		return code >= t.code && index >= t.index
	}
	if exact {
		return false // the same key is removed before it is added
	}
	i := r.printIndex(t.print())
	if i < 0 {
		return false
	}
	trace := r.trace(i)
	code := max(trace>>codeAt, uint64(t.code))
	stamp := max(int64(trace>>stampAt)&maxStamp, t.index-r.base(m))
	r.setTrace(i, code<<codeAt|uint64(stamp)<<stampAt|t.print())
	return true
}

// add puts a trace into a tidy row that has space.
func (r *forgottenRow) add(t *trace, exact bool, m *layerTime) {
	if exact {
		for i := 0; i < len(r); i += 2 {
			if r[i+1] == 0 {
				r[i], r[i+1] = t.hash, exactWord(t)
				return
			}
		}
	}
	for i := range shortTraces {
		if r.trace(i) == 0 {
			stamp := max(0, t.index-r.base(m))
			r.setTrace(i, uint64(t.code)<<codeAt|uint64(stamp)<<stampAt|t.print())
			return
		}
	}
}

// remove removes the trace of a hash from an exact row and reports whether it was there.
func (r *forgottenRow) remove(hash uint64) bool {
	if r.shared() {
		return false
	}
	for i := 0; i < len(r); i += 2 {
		if r[i] == hash && r[i+1] != 0 {
			r[i], r[i+1] = 0, 0
			return true
		}
	}
	return false
}

// traces calls yield for every trace of a row that is not shared and has not expired. For short rows, only the fingerprint
// of the hash is known.
func (r *forgottenRow) traces(l *forgottenLayer, m *layerTime, yield func(*trace)) {
	if l.exact {
		for i := 0; i < len(r); i += 2 {
			if at := exactTime(r[i+1]); uint8(r[i+1]) != 0 && at > m.dead {
				yield(&trace{hash: r[i], code: uint8(r[i+1]), index: l.indexOf(at), at: at})
			}
		}
		return
	}
	base := r.base(m)
	for i := range shortTraces {
		word := r.trace(i)
		if index := base + int64(word>>stampAt)&maxStamp; word != 0 && index >= m.oldest {
			yield(&trace{hash: word & printMask << (64 - printBits), code: uint8(word >> codeAt), index: index})
		}
	}
}

// share makes a row shared, if it is not yet.
func (r *forgottenRow) share(l *forgottenLayer, m *layerTime) {
	if r.shared() {
		return
	}
	shared := forgottenRow{lastWord: sharedFlag}
	shared.setBase(m.oldest)
	r.traces(l, m, func(t *trace) { shared.addShared(t, l.exact, m) })
	*r = shared
}

// addShared adds a trace to a shared row. If times must be exact, it counts as the maximum: nothing is admitted until the last
// trace of the row has expired, so the grid does not matter.
func (r *forgottenRow) addShared(t *trace, exact bool, m *layerTime) {
	code := uint64(t.code)
	if exact {
		code = maxCode
	}
	r.raiseShared(code, t.index, 1, m)
	positions(t.print(), func(word int, bit uint64) bool {
		r[word] |= bit
		return true
	})
}

func (r *forgottenRow) raiseShared(code uint64, index int64, count uint64, m *layerTime) {
	last := r[lastWord]
	code = max(code, last>>codeAt&0xff)
	count = min(count+last&countMask, countMask)
	index = max(index, r.base(m))
	r[lastWord] = sharedFlag | uint64(index)&indexMask<<indexAt | code<<codeAt | count
}

// mayContain reports whether a shared row may have taken a fingerprint.
func (r *forgottenRow) mayContain(print uint64) bool {
	all := true
	positions(print, func(word int, bit uint64) bool {
		all = r[word]&bit != 0
		return all
	})
	return all
}

// positions calls yield for the bits of the filter that belong to a fingerprint, until it returns false.
func positions(print uint64, yield func(word int, bit uint64) bool) {
	x := (print + 1) * 0x9e3779b97f4a7c15
	x = (x ^ x>>29) * 0xbf58476d1ce4e5b9
	x ^= x >> 32
	for range filterHashes {
		at := x & 0xffff * filterBits >> 16
		if !yield(int(at/64), 1<<(at%64)) {
			return
		}
		x >>= 16
	}
}

// Codes of units are exact up to exactUnits and rounded up above that: an octave has 1<<digits codes. Logs and slots have
// at most 10,000 units and can afford more digits than counts, which go up to 2^53.
const (
	exactUnits   = 64
	exactOctave  = 6 // exactUnits is 1<<exactOctave
	countDigits  = 2
	logDigits    = 4
	maxCode      = exactUnits + (53-exactOctave)<<countDigits // the code of rule.MaxQuota among counts
	maxCodeOfLog = 255
)

// codeOf returns the smallest code that stands for n units or more.
func codeOf(n int64, digits uint) uint8 {
	if n <= exactUnits {
		return uint8(n)
	}
	octave := uint(bits.Len64(uint64(n-1)) - 1)
	step := octave - digits
	above := (n - 1<<octave + 1<<step - 1) >> step // 1 to 1<<digits
	return uint8(min(exactUnits+int64(octave-exactOctave)<<digits+above, maxCodeOfLog))
}

// unitsOf returns how many units a code stands for.
func unitsOf(code uint8, digits uint) int64 {
	if code <= exactUnits {
		return int64(code)
	}
	beyond := uint(code) - exactUnits - 1
	octave, above := exactOctave+beyond>>digits, int64(beyond&(1<<digits-1)+1)
	return min(1<<octave+above<<(octave-digits), rule.MaxQuota)
}
