package reply

import (
	"sync"
	"unsafe"
)

// values is memory that the values of header fields are cut from. A response's values are small, and allocating each
// separately would take longer than a decision. Memory that has been cut off is never written to again; a block is freed with
// the last response that uses a value in it.
type values struct {
	lines []string // each is a field's only line
	text  []byte
}

var valuesPool = sync.Pool{New: func() any { return new(values) }}

// Sizes of a block: enough for about a hundred responses.
const (
	linesInBlock = 256
	bytesInBlock = 4096
)

// newValues returns values with capacity for some lines and bytes. Call putBack when they are cut.
func newValues(lines, bytes int) *values {
	v := valuesPool.Get().(*values)
	if cap(v.lines)-len(v.lines) < lines {
		v.lines = make([]string, 0, max(lines, linesInBlock))
	}
	if cap(v.text)-len(v.text) < bytes {
		v.text = make([]byte, 0, max(bytes, bytesInBlock))
	}
	return v
}

// cut returns what has been appended to v.text since it had length from.
func (v *values) cut(from int) string {
	return unsafe.String(unsafe.SliceData(v.text[from:]), len(v.text)-from) // nothing writes there again
}

// line returns a text as the value of a field. Appending to it makes a copy.
func (v *values) line(text string) []string {
	n := len(v.lines)
	v.lines = append(v.lines, text)
	return v.lines[n : n+1 : n+1]
}

func (v *values) putBack() { valuesPool.Put(v) }
