package jsonscan

import (
	"encoding/binary"
	"fmt"
	"math/bits"
)

// maxDepth is how deep arrays and objects may be nested, so that no input can exhaust the stack.
const maxDepth = 512

// Scanner reads JSON objects one after the other: it checks all of each, and keeps the raw text of the members that were asked
// for. Of members that stand twice the last one counts. It keeps its memory from line to line. The zero value asks for
// nothing, and is ready. It is not safe for concurrent use.
type Scanner struct {
	tree    *node // what is asked for; nil for nothing
	line    []byte
	found   [][]byte // raw values by slot, nil if not there
	scratch []byte   // what had to be unescaped of this line
	bad     int      // where the mistake is, after a method returned -1
	deep    bool     // and it is the depth
}

// Slot asks for the member at path, in all lines from the next one on, and returns the slot in which Raw finds it. If fold is
// set, the last name of path matches in any case.
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

// Read reports whether line is one JSON object. If it is not, Why says what is wrong.
func (s *Scanner) Read(line []byte) bool {
	s.line, s.scratch, s.deep = line, s.scratch[:0], false
	clear(s.found)
	i := s.space(0)
	if s.at(i) != '{' {
		s.bad = i
		return false
	}
	if i = s.object(i, s.tree, 0); i < 0 {
		return false
	}
	s.bad = s.space(i)
	return s.bad == len(line)
}

// Raw returns the value in a slot as it stands in the line that was read last, nil if the line does not have it.
func (s *Scanner) Raw(slot int) []byte { return s.found[slot] }

// Why says what is wrong with the line, after Read returned false.
func (s *Scanner) Why() string {
	switch {
	case s.deep:
		return fmt.Sprintf("it is nested more than %d deep", maxDepth)
	case s.space(0) == s.bad && s.bad < len(s.line):
		return "the line is not an object"
	case s.bad == len(s.line):
		return "the line ends in the middle"
	}
	return fmt.Sprintf("it is not valid at byte %d", s.bad+1)
}

// at returns the byte at i, and 0, which nothing expects, after the end.
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
	s.bad = min(i, len(s.line))
	return -1
}

// value checks the value at i and returns where it ends, or -1. Names in it are looked for in want, which may be nil.
func (s *Scanner) value(i int, want *node, depth int) int {
	if depth > maxDepth {
		s.deep = true
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
		var kid *node
		if want != nil {
			kid = want.named(s.unquote(s.line[i:end]))
		}
		if i = s.space(end); s.at(i) != ':' {
			return s.fail(i)
		}
		if i = s.wanted(s.space(i+1), kid, depth+1); i < 0 {
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
		var kid *node
		if want != nil {
			kid = want.numbered(n)
		}
		if i = s.wanted(i, kid, depth+1); i < 0 {
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

// wanted is value, and keeps what it finds if want has a slot for it.
func (s *Scanner) wanted(i int, want *node, depth int) int {
	if want == nil {
		return s.value(i, nil, depth)
	}
	want.forget(s.found)
	end := s.value(i, want, depth)
	if end >= 0 && want.slot >= 0 {
		s.found[want.slot] = s.line[i:end]
	}
	return end
}

// str checks the string at i, which is its opening quote.
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

// EndOfPlain returns where after i the first byte is that is not plain text in a JSON string: a quote, a backslash, a
// control character. It looks at eight bytes at a time.
func EndOfPlain(line []byte, i int) int {
	const ones, tops = 0x0101010101010101, 0x8080808080808080
	for i+8 <= len(line) {
		x := binary.LittleEndian.Uint64(line[i:])
		quote, backslash := x^'"'*ones, x^'\\'*ones
		// (y - ones) &^ y & tops has the top bit of every zero byte of y, and (x - 0x20*ones) &^ x & tops that of every
		// byte of x less than 0x20. A borrow can add bits above such a byte, but none below the lowest.
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

// number checks the number at i: no zero before other digits, digits on both sides of the point and in the exponent.
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
