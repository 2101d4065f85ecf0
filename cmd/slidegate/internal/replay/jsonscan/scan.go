package jsonscan

import (
	"encoding/binary"
	"fmt"
	"math/bits"
)

// maxDepth is the maximum nesting of arrays and objects, so that no input can exhaust the stack.
const maxDepth = 512

// Scanner reads lines that are JSON objects: it validates each line, and keeps the raw text of the requested members. The
// last of duplicate members counts. It reuses its memory from line to line. The zero value is ready to use, and requests
// no members. It is not safe for concurrent use.
type Scanner struct {
	tree        *node // the requested members; nil if there are none
	line        []byte
	found       [][]byte // raw values by slot, nil if missing
	scratch     []byte   // the unescaped strings of this line
	errorOffset int      // the offset of the error, once a method has returned -1
	tooDeep     bool     // the error is that the nesting is too deep
}

// Slot requests the member at path, in all lines from the next one on, and returns its slot for Raw. If fold is set, the
// last name of path is case-insensitive.
func (s *Scanner) Slot(path []string, fold bool) int {
	if s.tree == nil {
		s.tree = newTree()
	}
	slot := s.tree.add(path, fold, len(s.found))
	if slot == len(s.found) {
		s.found = append(s.found, nil)
	}
	return slot
}

// Read reads a line, and reports whether it is one JSON object. If it is not, Why returns the reason.
func (s *Scanner) Read(line []byte) bool {
	s.line, s.scratch, s.tooDeep = line, s.scratch[:0], false
	clear(s.found)
	i := s.space(0)
	if s.at(i) != '{' {
		s.errorOffset = i
		return false
	}
	if i = s.object(i, s.tree, 0); i < 0 {
		return false
	}
	s.errorOffset = s.space(i)
	return s.errorOffset == len(line)
}

// Raw returns the raw value in a slot of the last line read, or nil if the line does not have it.
func (s *Scanner) Raw(slot int) []byte { return s.found[slot] }

// Reason returns the reason why the line is invalid, after Read returned false.
func (s *Scanner) Reason() string {
	switch {
	case s.tooDeep:
		return fmt.Sprintf("nested more than %d deep", maxDepth)
	case s.space(0) == s.errorOffset && s.errorOffset < len(s.line):
		return "the line is not an object"
	case s.errorOffset == len(s.line):
		return "the line ends early"
	}
	return fmt.Sprintf("invalid JSON at byte %d", s.errorOffset+1)
}

// at returns the byte at i, or 0, which is never expected, after the end.
func (s *Scanner) at(i int) byte {
	if i < len(s.line) {
		return s.line[i]
	}
	return 0
}

func (s *Scanner) space(i int) int {
	for i < len(s.line) && (s.line[i] == ' ' || s.line[i] == '\t' || s.line[i] == '\r' || s.line[i] == '\n') {
		i++
	}
	return i
}

func (s *Scanner) fail(i int) int {
	s.errorOffset = min(i, len(s.line))
	return -1
}

// value validates the value at i and returns its end, or -1. It looks up names in want, which may be nil.
func (s *Scanner) value(i int, want *node, depth int) int {
	if depth > maxDepth {
		s.tooDeep = true
		return s.fail(i)
	}
	switch s.at(i) {
	case '"':
		return s.str(i)
	case '{':
		return s.object(i, want, depth)
	case '[':
		return s.array(i, want, depth)
	case 't':
		return s.literal(i, "true")
	case 'f':
		return s.literal(i, "false")
	case 'n':
		return s.literal(i, "null")
	}
	return s.number(i)
}

func (s *Scanner) object(i int, want *node, depth int) int {
	i = s.space(i + 1)
	if s.at(i) == '}' {
		return i + 1
	}
	for {
		if s.at(i) != '"' {
			return s.fail(i)
		}
		end := s.str(i)
		if end < 0 {
			return -1
		}
		var child *node
		if want != nil {
			child = want.childNamed(s.unquote(s.line[i:end]))
		}
		if i = s.space(end); s.at(i) != ':' {
			return s.fail(i)
		}
		if i = s.member(s.space(i+1), child, depth+1); i < 0 {
			return -1
		}
		switch i = s.space(i); s.at(i) {
		case ',':
			i = s.space(i + 1)
		case '}':
			return i + 1
		default:
			return s.fail(i)
		}
	}
}

func (s *Scanner) array(i int, want *node, depth int) int {
	i = s.space(i + 1)
	if s.at(i) == ']' {
		return i + 1
	}
	for n := 0; ; n++ {
		var child *node
		if want != nil {
			child = want.childAt(n)
		}
		if i = s.member(i, child, depth+1); i < 0 {
			return -1
		}
		switch i = s.space(i); s.at(i) {
		case ',':
			i = s.space(i + 1)
		case ']':
			return i + 1
		default:
			return s.fail(i)
		}
	}
}

// member is like value, and stores the value if want has a slot.
func (s *Scanner) member(i int, want *node, depth int) int {
	if want == nil {
		return s.value(i, nil, depth)
	}
	want.clearSlots(s.found)
	end := s.value(i, want, depth)
	if end >= 0 && want.slot >= 0 {
		s.found[want.slot] = s.line[i:end]
	}
	return end
}

// str validates the string whose opening quote is at i.
func (s *Scanner) str(i int) int {
	for i++; ; i++ {
		i = EndOfPlain(s.line, i)
		switch s.at(i) {
		case '"':
			return i + 1
		case '\\':
			i++
			switch s.at(i) {
			case '"', '\\', '/', 'b', 'f', 'n', 'r', 't':
			case 'u':
				if i+4 >= len(s.line) || hex4(s.line[i+1:]) < 0 {
					return s.fail(i)
				}
				i += 4
			default:
				return s.fail(i)
			}
		default: // a control character, or the end
			return s.fail(i)
		}
	}
}

// EndOfPlain returns the index of the first byte from i on that is not plain text in a JSON string: a quote, a backslash
// or a control character. It examines eight bytes at a time.
func EndOfPlain(line []byte, i int) int {
	const ones, tops = 0x0101010101010101, 0x8080808080808080
	for i+8 <= len(line) {
		x := binary.LittleEndian.Uint64(line[i:])
		quote, backslash := x^'"'*ones, x^'\\'*ones
		// (y - ones) &^ y & tops has the top bit of every zero byte of y, and (x - 0x20*ones) &^ x & tops has the top
		// bit of every byte of x less than 0x20. A borrow can add bits above such a byte, but none below the lowest.
		if found := ((x-0x20*ones)&^x | (quote-ones)&^quote | (backslash-ones)&^backslash) & tops; found != 0 {
			return i + bits.TrailingZeros64(found)/8
		}
		i += 8
	}
	for i < len(line) && line[i] >= ' ' && line[i] != '"' && line[i] != '\\' {
		i++
	}
	return i
}

func (s *Scanner) literal(i int, word string) int {
	if len(s.line)-i < len(word) || string(s.line[i:i+len(word)]) != word {
		return s.fail(i)
	}
	return i + len(word)
}

// number validates the number at i: no leading zero, and digits on both sides of the point and in the exponent.
func (s *Scanner) number(i int) int {
	if s.at(i) == '-' {
		i++
	}
	first := i
	if i = s.digits(i); i == first || i > first+1 && s.line[first] == '0' {
		return s.fail(first)
	}
	if s.at(i) == '.' {
		point := i
		if i = s.digits(i + 1); i == point+1 {
			return s.fail(i)
		}
	}
	if s.at(i)|0x20 == 'e' {
		i++
		if s.at(i) == '+' || s.at(i) == '-' {
			i++
		}
		first = i
		if i = s.digits(i); i == first {
			return s.fail(i)
		}
	}
	return i
}

func (s *Scanner) digits(i int) int {
	for i < len(s.line) && s.line[i]-'0' <= 9 {
		i++
	}
	return i
}
