package resp

import (
	"bytes"
	"fmt"
	"io"
)

const (
	firstBuffer = 4 << 10  // what a connection begins with
	mostAhead   = 64 << 10 // how far its buffer grows for pipelines; for one large command it grows as that comes in
	mostHeader  = 24       // bytes of a line that tells a length, without its end
	quietReads  = 32       // how many reads in a row must need little before the buffer gets smaller
)

// protocolError is something that no client sends who speaks the protocol. The text is what Redis would say, where it
// would say something.
type protocolError string

func (e protocolError) Error() string { return "Protocol error: " + string(e) }

const (
	errArgs    = protocolError("invalid multibulk length")
	errBulk    = protocolError("invalid bulk length")
	errEnd     = protocolError("expected CRLF after a bulk string")
	errCommand = protocolError("too big command")
	errLine    = protocolError("too big inline request")
	errQuotes  = protocolError("unbalanced quotes in request")
	errForeign = protocolError("another protocol") // which is not told: the client would not understand it
)

// bounds are what one command may take.
type bounds struct {
	args    int // arguments, the name included
	bulk    int // bytes of an argument, or of a line of text
	command int // bytes of all of it, with what tells the lengths
}

// reader takes commands out of a stream. It never holds more than one command of the bounds that next is given, or
// mostAhead, whichever is more, and at most twice that where a buffer had to grow. It remembers how far it has come in a
// command that is not complete, so bytes that drip in are looked at once.
type reader struct {
	source io.Reader
	buf    []byte
	start  int // of what was read and not taken yet,
	end    int // and its end
	quiet  int // reads in a row that needed little of the buffer
	full   bool

	at      int // how far the command has been understood, from start,
	missing int // how many arguments it still lacks; 0 before its header,
	length  int // and how long the next one is; -1 before its header
	spans   []span
	args    [][]byte
}

// span is where an argument is, from start.
type span struct{ from, to int }

func newReader(source io.Reader) *reader {
	return &reader{source: source, length: -1}
}

// begun tells whether a command has begun and is not complete.
func (r *reader) begun() bool { return r.start < r.end }

// fill reads once. The arguments that next returned are gone then.
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
		return nil // what came with it is told next time
	}
	if err == nil {
		err = io.ErrNoProgress
	}
	return err
}

// makeRoom sees to it that there is room to read into.
func (r *reader) makeRoom() {
	size := len(r.buf)
	switch {
	case r.start == r.end:
		r.start, r.end = 0, 0
		switch {
		case size == 0:
			size = firstBuffer
		case r.full && size < mostAhead:
			size *= 2 // there was more to read
		case size > mostAhead:
			size = mostAhead
		case r.quiet >= quietReads && size > firstBuffer:
			size, r.quiet = size/2, 0
		}
	case r.end == size && r.start == 0:
		size *= 2 // one command fills all of it; next refuses those that are too large
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

// next returns the next command of what was read, if it is complete; the arguments are good until fill. After an error
// nothing that follows can be understood.
func (r *reader) next(b bounds) (args [][]byte, ok bool, err error) {
	for r.missing == 0 {
		if r.start == r.end {
			return nil, false, nil
		}
		if r.buf[r.start] != '*' {
			args, ok, err = r.inline(b)
			if !ok || err != nil || len(args) > 0 {
				return args, ok, err
			}
			continue // an empty line is nothing
		}
		n, ok, err := r.header(errArgs)
		if !ok || err != nil {
			return nil, false, err
		}
		if n > int64(b.args) {
			return nil, false, errArgs
		}
		if n <= 0 { // Redis takes it for nothing, too
			r.take()
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
	r.take()
	return r.args, true, nil
}

// take leaves behind what has been understood.
func (r *reader) take() {
	r.start += r.at
	r.at, r.missing, r.length = 0, 0, -1
	r.spans = r.spans[:0]
}

// argument understands one argument, if all of it is there.
func (r *reader) argument(b bounds) (ok bool, err error) {
	if r.length < 0 {
		if r.start+r.at == r.end {
			return false, nil
		}
		if first := r.buf[r.start+r.at]; first != '$' {
			return false, protocolError(fmt.Sprintf("expected '$', got '%s'", printable(first)))
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

// printable is how a byte is shown in an error.
func printable(b byte) string {
	if b < ' ' || b > '~' {
		return "?"
	}
	return string(rune(b))
}

// header reads the number behind the type's letter, to the end of the line.
func (r *reader) header(wrong error) (n int64, ok bool, err error) {
	rest := r.buf[r.start+r.at+1 : r.end]
	end := bytes.IndexByte(rest[:min(len(rest), mostHeader+2)], '\n')
	if end < 0 {
		if len(rest) >= mostHeader+2 {
			return 0, false, wrong
		}
		return 0, false, nil
	}
	if end == 0 || rest[end-1] != '\r' {
		return 0, false, wrong
	}
	if n, ok = parseInt(rest[:end-1]); !ok || rest[0] == '+' || !shortest(rest[:end-1]) {
		return 0, false, wrong
	}
	r.at += 1 + end + 1
	return n, true, nil
}

// shortest tells that a number that can be read has no zeros in front.
func shortest(text []byte) bool {
	digits := bytes.TrimPrefix(text, []byte("-"))
	return digits[0] != '0' || len(text) == 1
}
