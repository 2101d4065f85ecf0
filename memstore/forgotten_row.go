package memstore

import (
	"math/bits"

	"github.com/slidegate/slidegate/rule"
)

// forgottenRow is one cache line of a forgotten memory. The zero value is empty. It has one of three forms:
//
//   - short: fifteen traces of 32 bits, and what their times count from. A trace is a fingerprint of the key (17 bits), a time
//     (7 bits) and a code of the units (8 bits), which is 0 where there is none.
//   - exact: four pairs of words, the hash of a key and its time with the code of its units, for keys of which the time must not
//     be rounded.
//   - shared: a Bloom filter of fingerprints, and one time and one code for all of them, the largest there was. A row becomes
//     shared when it is full and there is no memory for more, so it never runs out of room: as it fills, it only takes more
//     and more keys for forgotten.
//
// Times are indexes: multiples of the layer's step. Words have 31 bits of them, which are completed by the clock.
type forgottenRow [8]uint64

const (
	printBits, stampBits = 17, 7
	printMask            = uint64(1)<<printBits - 1
	mostStamp            = int64(1)<<stampBits - 1
	stampAt, codeAt      = printBits, printBits + stampBits // in a trace, and the code also in the last word of a shared row
	traceMask            = uint64(1)<<32 - 1

	shortTraces = 15
	exactTraces = 4

	lastWord   = 7
	sharedFlag = uint64(1) << 63
	indexAt    = 32 // in the last word of a short row, what times count from; of a shared one, its time
	indexMask  = uint64(1)<<31 - 1
	countMask  = uint64(1)<<24 - 1 // in the last word of a shared row, how many it took in

	filterBits   = 64 * lastWord
	filterHashes = 4
)

// trace is one forgotten key.
type trace struct {
	hash  uint64
	code  uint8
	at    rule.Micros // the time in full,
	index int64       // and rounded up to a multiple
	step  rule.Micros // of the layer's step
}

func (t *trace) print() uint64 { return t.hash >> (64 - printBits) }

// moment is now, as the rows of one layer see it.
type moment struct {
	now    rule.Micros
	step   rule.Micros // of the layer
	index  int64       // of now, rounded down
	oldest int64       // the earliest index that counts
	dead   rule.Micros // the latest time in full that does not
}

// indexOf completes the 31 bits of an index.
func (m *moment) indexOf(low uint64) int64 {
	const half = 1 << 30
	return m.index - half + int64((low-uint64(m.index)+half)&indexMask)
}

func (r *forgottenRow) shared() bool { return r[lastWord]&sharedFlag != 0 }

// base returns the index that the times of a row count from, or the index of a shared row.
func (r *forgottenRow) base(m *moment) int64 { return m.indexOf(r[lastWord] >> indexAt) }

func (r *forgottenRow) setBase(index int64) {
	r[lastWord] = r[lastWord]&(sharedFlag|traceMask) | uint64(index)&indexMask<<indexAt
}

func (r *forgottenRow) trace(i int) uint64 { return r[i/2] >> (32 * (i % 2)) & traceMask }

func (r *forgottenRow) setTrace(i int, trace uint64) {
	shift := 32 * (i % 2)
	r[i/2] = r[i/2]&^(traceMask<<shift) | trace<<shift
}

// find returns the code and the index of a fingerprint in a short or shared row, or a code of 0.
func (r *forgottenRow) find(print uint64, m *moment) (code uint8, index int64) {
	if r.shared() {
		if index = r.base(m); index < m.oldest || !r.passes(print) {
			return 0, 0
		}
		return uint8(r[lastWord] >> codeAt), index
	}
	i := r.place(print)
	if i < 0 {
		return 0, 0
	}
	trace := r.trace(i)
	if index = r.base(m) + int64(trace>>stampAt)&mostStamp; index < m.oldest {
		return 0, 0
	}
	return uint8(trace >> codeAt), index
}

// place returns where in a short row a fingerprint is, or -1. No two traces of a row have the same one.
func (r *forgottenRow) place(print uint64) int {
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
func (r *forgottenRow) findExact(hash uint64, m *moment) (code uint8, at rule.Micros) {
	for i := 0; i < len(r); i += 2 {
		if at = exactTime(r[i+1]); r[i] == hash && uint8(r[i+1]) != 0 && at > m.dead {
			return uint8(r[i+1]), at
		}
	}
	return 0, 0
}

// An exact trace's second word has the time above the code. Times take 53 bits, so its highest bit is free to tell forms apart.
func exactTime(word uint64) rule.Micros { return rule.Micros(word >> 8) }
func exactWord(t *trace) uint64         { return uint64(t.at)<<8 | uint64(t.code) }

// tidy drops what has expired and makes room for a time that is to be added. It returns how many traces it dropped.
func (r *forgottenRow) tidy(index int64, exact bool, m *moment) (dropped int64) {
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

// rebase lets the times of a short row count from the earliest that is still needed. Where they are too far apart for the few
// bits that they have, early ones become later.
func (r *forgottenRow) rebase(index int64, m *moment) (dropped int64) {
	if *r == (forgottenRow{}) {
		r.setBase(max(m.oldest, index-mostStamp))
		return 0
	}
	base := r.base(m)
	if base >= m.oldest && index-base <= mostStamp {
		return 0 // nothing can have expired
	}
	next := max(base, m.oldest, index-mostStamp)
	for i := range shortTraces {
		trace := r.trace(i)
		if trace == 0 {
			continue
		}
		at := base + int64(trace>>stampAt)&mostStamp
		if at < m.oldest {
			r.setTrace(i, 0)
			dropped++
			continue
		}
		r.setTrace(i, trace&^(uint64(mostStamp)<<stampAt)|uint64(max(0, at-next))<<stampAt)
	}
	r.setBase(next)
	return dropped
}

// free returns how many traces can be added to a row that is tidy.
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
		n-- // that is not a trace
	}
	return n
}

// raise makes a row that knows the trace's key say as much as the trace does, and reports whether there is such a key. A
// shared row is only asked whether it says so already.
func (r *forgottenRow) raise(t *trace, exact bool, m *moment) bool {
	if r.shared() {
		code, index := r.find(t.print(), m)
		return code >= t.code && index >= t.index
	}
	if exact {
		return false // the same key is taken out before it is added
	}
	i := r.place(t.print())
	if i < 0 {
		return false
	}
	trace := r.trace(i)
	code := max(trace>>codeAt, uint64(t.code))
	stamp := max(int64(trace>>stampAt)&mostStamp, t.index-r.base(m))
	r.setTrace(i, code<<codeAt|uint64(stamp)<<stampAt|t.print())
	return true
}

// add puts a trace into a row that is tidy and has room.
func (r *forgottenRow) add(t *trace, exact bool, m *moment) {
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

// remove takes the trace of a hash out of an exact row and reports whether it was there.
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

// traces calls yield for every trace of a row that is not shared and has not expired. Of a short one only the fingerprint of
// the hash is known.
func (r *forgottenRow) traces(l *forgottenLayer, m *moment, yield func(*trace)) {
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
		if index := base + int64(word>>stampAt)&mostStamp; word != 0 && index >= m.oldest {
			yield(&trace{hash: word & printMask << (64 - printBits), code: uint8(word >> codeAt), index: index})
		}
	}
}

// share makes a row shared, if it is not.
func (r *forgottenRow) share(l *forgottenLayer, m *moment) {
	if r.shared() {
		return
	}
	shared := forgottenRow{lastWord: sharedFlag}
	shared.setBase(m.oldest)
	r.traces(l, m, func(t *trace) { shared.mix(t, l.exact, m) })
	*r = shared
}

// mix adds a trace to a shared row. Where times must be exact it counts as the most that there can be: nothing is admitted
// until the last of the row has expired, so that it does not matter on which grid.
func (r *forgottenRow) mix(t *trace, exact bool, m *moment) {
	code := uint64(t.code)
	if exact {
		code = mostCode
	}
	r.raiseShared(code, t.index, 1, m)
	positions(t.print(), func(word int, bit uint64) bool {
		r[word] |= bit
		return true
	})
}

func (r *forgottenRow) raiseShared(code uint64, index int64, count uint64, m *moment) {
	last := r[lastWord]
	code = max(code, last>>codeAt&0xff)
	count = min(count+last&countMask, countMask)
	index = max(index, r.base(m))
	r[lastWord] = sharedFlag | uint64(index)&indexMask<<indexAt | code<<codeAt | count
}

// passes reports whether a shared row may have taken in a fingerprint.
func (r *forgottenRow) passes(print uint64) bool {
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

// Codes of units are exact up to exactUnits and rounded up above that: an octave has 1<<digits codes. Logs and slots have at most
// 10,000 units and can afford more digits than counts, which go up to 2^53.
const (
	exactUnits    = 64
	exactOctave   = 6 // exactUnits is 1<<exactOctave
	countDigits   = 2
	logDigits     = 4
	mostCode      = exactUnits + (53-exactOctave)<<countDigits // the code of rule.MaxQuota among counts
	mostCodeOfLog = 255
)

// codeOf returns the least code that stands for n units or more.
func codeOf(n int64, digits uint) uint8 {
	if n <= exactUnits {
		return uint8(n)
	}
	octave := uint(bits.Len64(uint64(n-1)) - 1)
	step := octave - digits
	above := (n - 1<<octave + 1<<step - 1) >> step // 1 to 1<<digits
	return uint8(min(exactUnits+int64(octave-exactOctave)<<digits+above, mostCodeOfLog))
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
