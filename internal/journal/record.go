package journal

import (
	"encoding/binary"
	"math/bits"
	"sync/atomic"
	"unsafe"
)

// A record begins with a word: a checksum in its upper half; in its lower half a form, and what the form needs. While a record is being
// written, the word says "open" and the length, so that a reader can skip a record whose writer has died. A word of zero has not been
// written: a process died after it had reserved space, or nothing was recorded there yet.
//
// All checksums depend on the segment's salt and the position, so that bytes of another file or another place do not pass.
const (
	formOpen = 1 // bits 3 to 31 are the length in words; followed by anything
	formNote = 2 // bits 3 to 30 are the tag; followed by two words
	formBody = 3 // bits 3 to 10 are the kind, 11 to 31 the length of the body in bytes; followed by the body, filled up with zeros to a word
	formPad  = 4 // bits 3 to 31 are the length in words; nothing is to be read there

	wordBytes = 8
	noteBytes = 3 * wordBytes
)

func openWord(bytes uint64) uint32          { return formOpen | uint32(bytes/wordBytes)<<3 }
func padWord(bytes uint64) uint32           { return formPad | uint32(bytes/wordBytes)<<3 }
func noteWord(tag uint32) uint32            { return formNote | tag<<3 }
func bodyWord(kind uint8, bytes int) uint32 { return formBody | uint32(kind)<<3 | uint32(bytes)<<11 }

// bodyBytes returns the length of a record with a body.
func bodyBytes(body int) uint64 { return wordBytes + (uint64(body)+wordBytes-1)&^(wordBytes-1) }

// salt is random in each segment.
type salt struct{ A, B uint64 }

const multiplier = 0x9e3779b97f4a7c15

// fold multiplies, and mixes both halves of the product. It is several times as fast as CRC-32C for a few words.
func fold(a, b uint64) uint64 {
	hi, lo := bits.Mul64(a, b)
	return hi ^ lo
}

// begin returns the checksum of the first word's lower half at a position.
func (s salt) begin(off uint64, word uint32) uint64 {
	return fold(s.A^off<<32^uint64(word), multiplier)
}

// add returns the checksum with two more words.
func (s salt) add(sum, a, b uint64) uint64 { return fold(sum^a, s.B^b) }

// seal returns the first word of a record.
func seal(sum uint64, word uint32) uint64 { return (sum^sum<<32)&^(1<<32-1) | uint64(word) }

func (s salt) sealed(off uint64, word uint32) uint64 { return seal(s.begin(off, word), word) }

func (s salt) note(off uint64, tag uint32, a, b uint64) uint64 {
	word := noteWord(tag & maxTag)
	return seal(s.add(s.begin(off, word), a, b), word)
}

func (s salt) body(off uint64, kind uint8, body []byte) uint64 {
	word := bodyWord(kind, len(body))
	return seal(s.text(s.begin(off, word), body), word)
}

// text returns the checksum with bytes, filled up with zeros to two words.
func (s salt) text(sum uint64, body []byte) uint64 {
	for len(body) >= 2*wordBytes {
		sum = s.add(sum, binary.LittleEndian.Uint64(body), binary.LittleEndian.Uint64(body[wordBytes:]))
		body = body[2*wordBytes:]
	}
	if len(body) > 0 {
		var rest [2 * wordBytes]byte
		copy(rest[:], body)
		sum = s.add(sum, binary.LittleEndian.Uint64(rest[:]), binary.LittleEndian.Uint64(rest[wordBytes:]))
	}
	return sum
}

// putNote writes a record into a mapping, where the process may die between any two stores. The call of pauseAt is also what keeps the
// compiler from leaving out the first store because of the last one, to the same word.
func (j *Journal) putNote(s *segment, off uint64, tag uint32, a, b uint64) {
	at := s.at(off)
	j.pauseAt("reserved")
	put(at, s.salt.sealed(off, openWord(noteBytes)))
	put(next(at, 1), a)
	put(next(at, 2), b)
	j.pauseAt("opened")
	publish(at, s.salt.note(off, tag, a, b))
	j.pauseAt("written")
}

func (j *Journal) putBody(s *segment, off uint64, kind uint8, body []byte) {
	at := s.at(off)
	j.pauseAt("reserved")
	put(at, s.salt.sealed(off, openWord(bodyBytes(len(body)))))
	copy(unsafe.Slice((*byte)(unsafe.Pointer(next(at, 1))), len(body)), body)
	j.pauseAt("opened")
	publish(at, s.salt.body(off, kind, body))
	j.pauseAt("written")
}

func next(at *atomic.Uint64, words uintptr) *atomic.Uint64 {
	return (*atomic.Uint64)(unsafe.Add(unsafe.Pointer(at), words*wordBytes))
}

// state is what a word of a file is the beginning of.
type state int

const (
	whole     state = iota // a record, or nothing to be read
	hole                   // nothing was written
	open                   // a record that was not finished
	broken                 // neither: a checksum is wrong
	truncated              // a record that goes beyond the end of the file
)

// parse returns what is at a position, and its length, which is 0 if it is not known. ok is false if there is no record to be replayed. What
// is filled up may end beyond the end of a file that grows.
func parse(data []byte, off uint64, s salt) (what state, length uint64, r Record, ok bool) {
	left := uint64(len(data)) - off
	if left < wordBytes {
		return truncated, 0, r, false
	}
	first := binary.LittleEndian.Uint64(data[off:])
	if first == 0 {
		return hole, 0, r, false
	}
	word := uint32(first)
	switch word & 7 {
	case formOpen, formPad:
		length = uint64(word>>3) * wordBytes
		if first != s.sealed(off, word) || length == 0 {
			return broken, 0, r, false
		}
		switch {
		case word&7 == formPad:
			return whole, length, r, false
		case length > left:
			return truncated, length, r, false
		}
		return open, length, r, false
	case formNote:
		if left < noteBytes {
			return truncated, noteBytes, r, false
		}
		r = Record{
			IsNote: true, Tag: word >> 3, A: binary.LittleEndian.Uint64(data[off+wordBytes:]),
			B: binary.LittleEndian.Uint64(data[off+2*wordBytes:]),
		}
		if first != s.note(off, r.Tag, r.A, r.B) {
			return broken, noteBytes, r, false
		}
		return whole, noteBytes, r, true
	case formBody:
		size := int(word >> 11)
		length = bodyBytes(size)
		if length > left {
			return truncated, length, r, false
		}
		r = Record{Kind: uint8(word >> 3), Body: data[off+wordBytes:][:size:size]}
		if first != s.body(off, r.Kind, r.Body) {
			return broken, length, r, false
		}
		return whole, length, r, true
	}
	return broken, 0, r, false
}
