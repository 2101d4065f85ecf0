package traffic

import (
	"errors"
	"fmt"
	"io"

	"github.com/slidegate/slidegate/cmd/slidegate/internal/replay/facing"
)

// examplesKept is how many of the lines that could not be read a Source shows.
const examplesKept = 5

// Reader reads the requests of one log. It is not safe for concurrent use, but for BytesRead. Open and NewReader make it.
type Reader struct {
	source Source
	in     *input
	close  io.Closer
	size   int64
	format Format
	lines  *scanner
	filter *Filter          // nil if it takes all
	match  *facing.Patterns // nil if the filter is held against none
	known  facing.Known
	parser parser
	entry  *entry
	plan   *plan
	parts  []Part
	err    error // what Next returns from now on
}

// Next fills line with the next request. It skips and counts what the filter leaves out and what cannot be read. It
// returns io.EOF after the last line; another error if the log ends before its end, or had no line that could be read.
func (r *Reader) Next(line *Line) error {
	for r.err == nil {
		text, tooLong, err := r.lines.next()
		if err != nil {
			r.err = r.end(err)
			break
		}
		if isBlank(text) || isComment(r.parser, text) {
			continue
		}
		r.source.Lines++
		if tooLong {
			r.spoil(text, "line: it is longer than 1 MiB")
			continue
		}
		taken, why := r.take(text, line)
		if taken {
			return nil
		}
		if why != "" {
			r.spoil(text, why)
		}
	}
	return r.err
}

// take makes a request of the text. If it cannot, it says why; if the filter leaves it out, it says nothing.
func (r *Reader) take(text []byte, line *Line) (taken bool, why string) {
	if why := r.parser.parse(text, r.entry); why != "" {
		return false, why
	}
	if r.filter != nil && !r.pass() {
		r.source.Filtered++
		return false, ""
	}
	if r.plan.about != nil {
		line.About = r.plan.about.of(r.entry)
	}
	if r.plan.faces != nil {
		return r.face(line)
	}
	units, why := r.plan.cost.of(r.entry)
	if why != "" {
		return false, why
	}
	name, missing := r.plan.key.of(r.entry)
	if missing {
		r.source.KeyMissing++
	}
	r.source.Requests++
	line.At, line.Time, line.Key, line.Cost = r.entry.at, r.entry.time, name, units
	return true, ""
}

// pass reports whether the filter takes the entry, and counts it if the pattern that is held against it does not agree.
func (r *Reader) pass() bool {
	taken := r.filter.takes(r.entry)
	if r.match != nil && r.match.Matches(r.entry.request(), r.known) != taken {
		r.source.Differing++
	}
	return taken
}

// face makes a request of the entry that has a part for each policy that it faces.
func (r *Reader) face(line *Line) (taken bool, why string) {
	parts, missing, why := r.plan.faces.of(r.entry)
	if r.plan.other != nil && why == "" {
		var others []Part
		var lacks bool
		others, lacks, why = r.plan.other.of(r.entry)
		r.parts = append(append(r.parts[:0], parts...), others...)
		parts, missing = r.parts, missing || lacks
	}
	switch {
	case why != "":
		return false, why
	case len(parts) == 0:
		r.source.Unmatched++
		return false, ""
	case missing:
		r.source.KeyMissing++
	}
	r.source.Requests++
	line.At, line.Time, line.Key, line.Cost, line.Parts = r.entry.at, r.entry.time, parts[0].Key, parts[0].Cost, parts
	return true, ""
}

// spoil counts a line that could not be read.
func (r *Reader) spoil(text []byte, why string) {
	r.source.Unreadable++
	if len(r.source.Examples) < examplesKept {
		r.source.Examples = append(r.source.Examples, BadLine{Number: r.lines.number, Text: shown(text), Why: why})
	}
}

// end returns what Next says after the last line, which err came instead of.
func (r *Reader) end(err error) error {
	if err != io.EOF {
		r.source.Cut = r.in.whyCut(err)
		return inLog(r.source.Name, &cutError{r.source.Cut, err})
	}
	if r.source.Lines == 0 {
		return inLog(r.source.Name, errEmpty)
	}
	if r.source.Unreadable == r.source.Lines {
		first := r.source.Examples[0]
		return inLog(r.source.Name, fmt.Errorf("no line of it could be read as the format %s; line %d: %s (%s)",
			r.format, first.Number, first.Why, first.Text))
	}
	return io.EOF
}

var errEmpty = errors.New("it is empty: there is no request in it")

// cutError is the error of a log that ends before its end, in words, with what caused it.
type cutError struct {
	text  string
	cause error
}

func (e *cutError) Error() string { return e.text }
func (e *cutError) Unwrap() error { return e.cause }

// Source returns what was read so far, and what could not be.
func (r *Reader) Source() Source { return r.source }

// BytesRead returns how many bytes were taken from the file so far, as it is packed. Any goroutine may call it.
func (r *Reader) BytesRead() int64 { return r.in.taken.Load() }

// Size returns the size of the file, as it is packed, or -1 if nobody knows.
func (r *Reader) Size() int64 { return r.size }

// Close closes the file, if Open opened it.
func (r *Reader) Close() error {
	r.in.release()
	if r.err == nil {
		r.err = errors.New("traffic: the reader is closed")
	}
	if r.close == nil {
		return nil
	}
	err := r.close.Close()
	r.close = nil
	return err
}
