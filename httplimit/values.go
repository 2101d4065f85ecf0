package httplimit

import (
	"math/bits"
	"sync"
	"unsafe"
)

// values is memory that the values of header fields are cut from. A response's values are small, and memory for each by
// itself takes longer to get than a decision takes. What has been cut is never written to again; a block is freed with the
// last response that has a value of it.
type values struct {
	lines []string // each a field's only line
	text  []byte
}

var spareValues = sync.Pool{New: func() any { return new(values) }}

// The sizes of a block: for about a hundred responses.
const (
	linesInBlock = 256
	bytesInBlock = 4096
)

// newValues returns values with room for some lines and bytes. Give it back when they are cut.
func newValues(lines, bytes int) *values {
	v := spareValues.Get().(*values)
	if cap(v.lines)-len(v.lines) < lines {
		v.lines = make([]string, 0, max(lines, linesInBlock))
	}
	if cap(v.text)-len(v.text) < bytes {
		v.text = make([]byte, 0, max(bytes, bytesInBlock))
	}
	return v
}

// cut returns what has been appended to text since it was from bytes long.
func (v *values) cut(from int) string {
	return unsafe.String(unsafe.SliceData(v.text[from:]), len(v.text)-from) // nobody writes there any more
}

// line makes a text the value of a field. Appending to it makes a copy.
func (v *values) line(text string) []string {
	n := len(v.lines)
	v.lines = append(v.lines, text)
	return v.lines[n : n+1 : n+1]
}

func (v *values) giveBack() { spareValues.Put(v) }

// pairsOfDigits are the numbers from 00 to 99.
const pairsOfDigits = "00010203040506070809101112131415161718192021222324252627282930313233343536373839404142434445464748495051525354555657585960616263646566676869707172737475767778798081828384858687888990919293949596979899"

var powersOfTen = func() (powers [19]int64) {
	powers[0] = 1
	for i := 1; i < len(powers); i++ {
		powers[i] = powers[i-1] * 10
	}
	powers[0] = 0 // 0 has a digit too
	return powers
}()

// appendNumber is strconv.AppendInt for a number that is not negative, written where it stays: the fields of every response
// are numbers.
func appendNumber(to []byte, n int64) []byte {
	digits := bits.Len64(uint64(n)|1) * 1233 >> 12 // times the logarithm of 2: one too low, or right
	if n >= powersOfTen[digits] {
		digits++
	}
	from := len(to)
	to = append(to, "0000000000000000000"[:digits]...)
	at := from + digits
	for n >= 100 {
		pair := n % 100 * 2
		n /= 100
		at -= 2
		to[at], to[at+1] = pairsOfDigits[pair], pairsOfDigits[pair+1]
	}
	if n >= 10 {
		to[at-2], to[at-1] = pairsOfDigits[2*n], pairsOfDigits[2*n+1]
	} else {
		to[at-1] = byte('0' + n)
	}
	return to
}
