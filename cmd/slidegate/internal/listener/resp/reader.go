package resp

import (
	"bytes"
	"fmt"
	"io"
	"math"
)

const (
	firstBuffer = 4 << 10  // initial size
	maxAhead    = 64 << 10 // how far the buffer grows for pipelines; for one large command it grows as that arrives
	maxHeader   = 24       // bytes of a length line, without its end
	quietReads  = 32       // consecutive reads that must need little before the buffer shrinks
)

// protocolError is a violation of the protocol. The text is the one that Redis uses, where it has one.
type protocolError string

func (e protocolError) Error() string { return "Protocol error: " + string(e) }

const (
	errArgs    = protocolError("invalid multibulk length")
	errBulk    = protocolError("invalid bulk length")
	errEnd     = protocolError("expected CRLF after a bulk string")
	errCommand = protocolError("too big command")
)

// bounds limits the size of one command.
type bounds struct {
	args    int // arguments, including the name
	bulk    int // bytes of an argument
	command int // bytes of the whole command, including lengths
}

// reader reads commands from a stream. It never holds more than one command of the bounds given to next, or maxAhead,
// whichever is larger, and at most twice that where a buffer had to grow. It remembers its progress in an incomplete
// command, so bytes that arrive slowly are scanned once.
type reader struct {
	source io.Reader

	buf   []byte
	start int // the start of the unread bytes
	end   int // the end of the unread bytes
	quiet int // consecutive reads that needed little of the buffer
	full  bool

	at      int // how far the command has been parsed, from start
	missing int // how many arguments are still missing; 0 before the header of the command
	length  int // the length of the next argument; -1 before its header
	spans   []span
	args    [][]byte
}

// span is the position of an argument, relative to start.
type span struct{ from, to int }

func newReader(source io.Reader) *reader { return &reader{source: source, length: -1} }

// begun reports whether a command has begun and is not complete.
func (r *reader) begun() bool { return r.start < r.end }

// fill reads once. The arguments that next returned are then invalid.
func (r *reader) fill() error {
	r.makeRoom()
	n, err := r.source.Read(r.buf[r.end:])
	r.end += n
	r.full = r.end == len(r.buf)
	if r.end*4 > len(r.buf) {
		r.quiet = 0
	} else {
		r.quiet++
	}
	if n > 0 {
		return nil // an error that came with data is returned by the next call
	}
	if err == nil {
		err = io.ErrNoProgress
	}
	return err
}

// makeRoom makes sure that there is space to read into.
func (r *reader) makeRoom() {
	size := len(r.buf)
	switch {
	case r.start == r.end:
		r.start, r.end = 0, 0
		switch {
		case size == 0:
			size = firstBuffer
		case r.full && size < maxAhead:
			size *= 2 // there was more to read
		case size > maxAhead:
			size = maxAhead
		case r.quiet >= quietReads && size > firstBuffer:
			size, r.quiet = size/2, 0
		}
	case r.end == size && r.start == 0:
		size *= 2 // one command fills all of it; next rejects commands that are too large
	}
	if size != len(r.buf) {
		r.full = false
		larger := make([]byte, size)
		r.end = copy(larger, r.buf[r.start:r.end])
		r.buf, r.start = larger, 0
	} else if r.end == size {
		r.end = copy(r.buf, r.buf[r.start:r.end])
		r.start = 0
	}
}

// next returns the next command, if it is complete; the arguments are valid until fill. After an error, the rest of the
// stream cannot be parsed.
func (r *reader) next(b bounds) (args [][]byte, ok bool, err error) {
	for r.missing == 0 {
		if r.start == r.end {
			return nil, false, nil
		}
		// A web page can make a browser, or a program that fetches URLs, send a request here. The page controls everything after the
		// first line, so none of it may be run: the first byte that is not of a command ends the connection.
		if first := r.buf[r.start]; first != '*' {
			return nil, false, unexpected('*', first)
		}
		n, ok, err := r.header(errArgs)
		if !ok || err != nil {
			return nil, false, err
		}
		if n > int64(b.args) {
			return nil, false, errArgs
		}
		if n <= 0 { // ignored, as in Redis
			r.discard()
			continue
		}
		r.missing = int(n)
	}
	for r.missing > 0 {
		if ok, err := r.argument(b); !ok || err != nil {
			return nil, false, err
		}
	}
	r.args = r.args[:0]
	for _, s := range r.spans {
		r.args = append(r.args, r.buf[r.start+s.from:r.start+s.to:r.start+s.to])
	}
	r.discard()
	return r.args, true, nil
}

// discard discards what has been parsed.
func (r *reader) discard() {
	r.start += r.at
	r.at, r.missing, r.length = 0, 0, -1
	r.spans = r.spans[:0]
}

// argument parses one argument, if all of it has arrived.
func (r *reader) argument(b bounds) (ok bool, err error) {
	if r.length < 0 {
		if r.start+r.at == r.end {
			return false, nil
		}
		if first := r.buf[r.start+r.at]; first != '$' {
			return false, unexpected('$', first)
		}
		n, ok, err := r.header(errBulk)
		if !ok || err != nil {
			return false, err
		}
		if n < 0 || n > int64(b.bulk) {
			return false, errBulk
		}
		if int64(r.at)+n+2 > int64(b.command) {
			return false, errCommand
		}
		r.length = int(n)
	}
	from, to := r.at, r.at+r.length
	if r.start+to+2 > r.end {
		return false, nil
	}
	if r.buf[r.start+to] != '\r' || r.buf[r.start+to+1] != '\n' {
		return false, errEnd
	}
	r.spans = append(r.spans, span{from, to})
	r.at, r.length = to+2, -1
	r.missing--
	return true, nil
}

// unexpected is the error for a first byte that is not the letter of the type that must follow.
func unexpected(want, got byte) error {
	if got < ' ' || got > '~' {
		got = '?'
	}
	return protocolError(fmt.Sprintf("expected '%c', got '%c'", want, got))
}

// header reads the number after the type's letter, to the end of the line.
func (r *reader) header(wrong error) (n int64, ok bool, err error) {
	rest := r.buf[r.start+r.at+1 : r.end]
	end := bytes.IndexByte(rest[:min(len(rest), maxHeader+2)], '\n')
	if end < 0 {
		if len(rest) >= maxHeader+2 {
			return 0, false, wrong
		}
		return 0, false, nil
	}
	if end == 0 || rest[end-1] != '\r' {
		return 0, false, wrong
	}
	if n, ok = parseInt(rest[:end-1]); !ok || rest[0] == '+' || !isCanonical(rest[:end-1]) {
		return 0, false, wrong
	}
	r.at += 1 + end + 1
	return n, true, nil
}

// isCanonical reports whether a valid number has no leading zeros.
func isCanonical(text []byte) bool {
	digits := bytes.TrimPrefix(text, []byte("-"))
	return digits[0] != '0' || len(text) == 1
}

// parseInt parses an integer with an optional sign. It is strconv.ParseInt without allocating an error.
func parseInt(text []byte) (n int64, ok bool) {
	negative := false
	if len(text) > 0 && (text[0] == '-' || text[0] == '+') {
		negative = text[0] == '-'
		text = text[1:]
	}
	if len(text) == 0 {
		return 0, false
	}
	var u uint64
	for _, c := range text {
		if c < '0' || c > '9' {
			return 0, false
		}
		if u > math.MaxInt64/10 {
			return 0, false
		}
		u = u*10 + uint64(c-'0')
		if u > math.MaxInt64+1 {
			return 0, false
		}
	}
	if negative {
		return -int64(u), true // also correct for the smallest, which has no positive counterpart
	}
	return int64(u), u <= math.MaxInt64
}
