package stores

import (
	"bytes"
	"errors"
	"fmt"
)

// framing parses a stream of RESP (the protocol of Redis) and finds what must not reach a client: lengths for which the client
// would allocate memory before the bytes arrive, arrays nested beyond its stack, and anything that makes it panic. It does not look
// into texts, so it costs a few nanoseconds per message. The zero value is at the beginning of a stream.
//
// It is as strict as possible wherever a more lenient client would find the start of the next message at another
// byte.
type framing struct {
	pushes   bool // whether push messages are allowed, as sentinels send them
	commands bool // whether these are the client's own commands, whose size is not bounded

	state state
	kind  byte // the kind of the element being read
	left  int  // remaining bytes of a text, including its line end
	line  int  // bytes of the line so far
	last  byte // the last byte of the line
	value int  // the number in the line
	minus bool
	head  [8]byte // the line's first bytes
	words int     // the number of words in the line after the first

	open     [maxDepth]int // remaining elements of the enclosing arrays
	depth    int
	elements int // the elements of the message
	size     int // the size of the message in bytes
}

// The bounds of a message. A cluster in which no two adjacent slots belong to the same node describes its nodes in about 230,000
// elements; the script's replies are smaller than a megabyte.
const (
	maxDepth    = 12
	maxElements = 1 << 18
	maxLine     = 64 << 10
	maxText     = 16 << 20
	maxSize     = 32 << 20
)

var errFraming = errors.New("the server's reply is not a valid reply of Redis")

func badFraming(why string, args ...any) error {
	return fmt.Errorf("%w: %s", errFraming, fmt.Sprintf(why, args...))
}

// state is the kind of input that the parser expects next.
type state byte

const (
	atKind state = iota
	inLine
	inText
)

// feed parses more bytes, and returns how many messages ended. After an error the stream is unusable.
func (f *framing) feed(p []byte) (messages int, err error) {
	for len(p) > 0 {
		switch f.state {
		case atKind:
			if n := wholeText(p); n > 0 { // the most common element by far
				f.size += n
				if err := f.checkSize(); err != nil {
					return messages, err
				}
				p = p[n:]
				messages += f.endElement()
				continue
			}
			if err := f.begin(p[0]); err != nil {
				return messages, err
			}
			p = p[1:]
		case inLine:
			end := bytes.IndexByte(p, '\n')
			if end < 0 {
				return messages, f.readLine(p)
			}
			if err := f.readLine(p[:end]); err != nil {
				return messages, err
			}
			p = p[end+1:]
			whole, err := f.endLine()
			if err != nil {
				return messages, err
			}
			messages += whole
		case inText:
			n := min(f.left, len(p))
			f.left -= n
			p = p[n:]
			if f.left == 0 {
				messages += f.endElement()
			}
		}
	}
	return messages, nil
}

// wholeText returns the length of the text that p begins with, or 0 if p does not begin with a complete text.
func wholeText(p []byte) int {
	if p[0] != '$' {
		return 0
	}
	n := 0
	for i := 1; i < min(len(p), 7); i++ {
		c := p[i]
		if c >= '0' && c <= '9' {
			n = 10*n + int(c-'0')
			continue
		}
		if end := i + 2 + n + 2; c == '\r' && i > 1 && end <= len(p) && p[i+1] == '\n' {
			return end
		}
		return 0
	}
	return 0
}

// begin begins an element, given the byte that identifies its kind.
func (f *framing) begin(kind byte) error {
	switch kind {
	case '+', '-', ':', '$', '*', '_', ',', '#', '(', '=', '%', '~':
	case '>':
		if !f.pushes || f.depth > 0 {
			return badFraming("an unexpected push message")
		}
	default:
		return badFraming("a message of kind %q", kind)
	}
	f.kind, f.state = kind, inLine
	f.line, f.last, f.value, f.minus, f.words = 0, 0, 0, false, 0
	return nil
}

// isLength reports whether the line is a length.
func (f *framing) isLength() bool {
	switch f.kind {
	case '$', '=', '*', '%', '~', '>':
		return true
	}
	return false
}

// readLine reads part of a line.
func (f *framing) readLine(p []byte) error {
	if f.line+len(p) > maxLine {
		return badFraming("a line of more than %d bytes", maxLine)
	}
	if f.isLength() {
		if err := f.readLength(p); err != nil {
			return err
		}
	} else if f.kind == '-' {
		copy(f.head[min(f.line, len(f.head)):], p)
		f.words += bytes.Count(p, []byte{' '})
	}
	f.line += len(p)
	if len(p) > 0 {
		f.last = p[len(p)-1]
	}
	return nil
}

// readLength reads part of a number.
func (f *framing) readLength(p []byte) error {
	if f.last == '\r' && len(p) > 0 {
		return badFraming("a length with more than one line end")
	}
	for i, c := range p {
		switch {
		case c >= '0' && c <= '9' && f.line+i < 10 && (f.commands || f.value <= maxText):
			f.value = 10*f.value + int(c-'0')
		case c == '-' && f.line+i == 0:
			f.minus = true
		case c == '\r' && f.line+i > 0 && i == len(p)-1:
		default:
			return badFraming("a length that is invalid or too large")
		}
	}
	return nil
}

// endLine ends a line, and returns how many messages ended with it.
func (f *framing) endLine() (messages int, err error) {
	length := f.line - 1 // without the \r
	f.size += f.line + 2
	switch {
	case f.last != '\r':
		return 0, badFraming("a line without a proper end")
	case f.kind == '_' && length != 0, f.kind == '#' && length != 1, f.kind == ':' && (length < 1 || length > 20):
		return 0, badFraming("a line of %d bytes for kind %q", length, f.kind)
	case f.kind == '-' && f.isTruncated():
		return 0, badFraming("a redirection without a target")
	case !f.isLength():
		return f.endElement(), f.checkSize()
	case f.minus:
		// A null text or array; other negative lengths are invalid.
		if f.value != 1 || length != 2 || f.kind != '$' && f.kind != '*' {
			return 0, badFraming("a negative length")
		}
		return f.endElement(), nil
	case f.kind == '$' || f.kind == '=':
		if f.value > maxText && !f.commands {
			return 0, badFraming("a text of %d bytes", f.value)
		}
		f.size += f.value + 2
		f.left, f.state = f.value+2, inText
		return 0, f.checkSize()
	}
	return f.beginArray()
}

// isTruncated reports whether an error lacks words that clients rely on, such as the target of a redirection.
func (f *framing) isTruncated() bool {
	for _, redirection := range []struct {
		start string
		words int
	}{{"MOVED", 2}, {"ASK", 2}, {"REDIRECT", 1}} {
		start := f.head[:min(len(f.head), f.line)]
		if bytes.HasPrefix(start, []byte(redirection.start)) && f.words < redirection.words {
			return true
		}
	}
	return false
}

func (f *framing) beginArray() (messages int, err error) {
	n := f.value
	if f.kind == '%' {
		n *= 2
	}
	f.elements += n
	if f.elements > maxElements && !f.commands {
		return 0, badFraming("a reply of more than %d elements", maxElements)
	}
	if n == 0 {
		return f.endElement(), nil
	}
	if f.depth == maxDepth {
		return 0, badFraming("arrays nested more than %d deep", maxDepth)
	}
	f.open[f.depth] = n
	f.depth++
	f.state = atKind
	return 0, nil
}

// endElement ends an element and the arrays that end with it, and returns 1 if the message ended too.
func (f *framing) endElement() (messages int) {
	f.state = atKind
	for f.depth > 0 {
		f.open[f.depth-1]--
		if f.open[f.depth-1] > 0 {
			return 0
		}
		f.depth--
	}
	f.elements, f.size = 0, 0
	return 1
}

func (f *framing) checkSize() error {
	if f.size > maxSize && !f.commands {
		return badFraming("a reply of more than %d bytes", maxSize)
	}
	return nil
}
