package traffic

import (
	"errors"
	"fmt"
	"io"

	"github.com/slidegate/slidegate/cmd/slidegate/internal/replay/routing"
)

// maxExamples is the number of unreadable lines in a Source.
const maxExamples = 5

// Reader reads the requests of one log. It is not safe for concurrent use, except for BytesRead. The zero value is not
// usable; call Open or NewReader.
type Reader struct {
	source Source
	in     *input
	close  io.Closer
	size   int64
	format string // its name
	lines  *scanner
	filter *Filter           // nil selects all
	match  *routing.Patterns // nil if the filter is not compared with patterns
	known  routing.Known
	parser parser
	entry  *entry
	plan   *plan
	parts  []Part
	err    error // returned by Next once it is set
}

// Next fills line with the next request. It skips and counts lines that the filter excludes or that are unreadable. It
// returns io.EOF after the last line, and another error if the log is truncated or had no readable line.
func (r *Reader) Next(line *Line) error {
	for r.err == nil {
		text, tooLong, err := r.lines.next()
		if err != nil {
			r.err = r.finalError(err)
			break
		}
		if isBlank(text) || isComment(r.parser, text) {
			continue
		}
		r.source.Lines++
		r.entry.failed = -1
		if tooLong {
			r.countUnreadable(text, "line: longer than 1 MiB")
			continue
		}
		taken, why := r.take(text, line)
		if taken {
			return nil
		}
		if why != "" {
			r.countUnreadable(text, why)
		}
	}
	return r.err
}

// take parses a request from text. If it is unreadable, why is the reason; if it is skipped, why is empty.
func (r *Reader) take(text []byte, line *Line) (taken bool, why string) {
	if why := r.parser.parse(text, r.entry); why != "" {
		return false, why
	}
	r.entry.failed = -1 // from here on, no position is to blame
	if r.filter != nil && !r.selected() {
		r.source.Filtered++
		return false, ""
	}
	line.About = r.plan.about.of(r.entry)
	if r.plan.splitter != nil {
		return r.takeParts(line)
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

// selected reports whether the filter selects the entry. It also counts the entries for which the filter and the patterns
// it is compared with differ.
func (r *Reader) selected() bool {
	selected := r.filter.selects(r.entry)
	if r.match != nil && r.match.Matches(r.entry.request(), r.known) != selected {
		r.source.Differing++
	}
	return selected
}

// takeParts fills line with the entry, one part per policy that applies. Its results are like those of take.
func (r *Reader) takeParts(line *Line) (taken bool, why string) {
	parts, missing, why := r.plan.splitter.of(r.entry)
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

// countUnreadable counts an unreadable line.
func (r *Reader) countUnreadable(text []byte, why string) {
	r.source.Unreadable++
	if len(r.source.Examples) < maxExamples {
		if r.entry.failed >= 0 {
			why += fmt.Sprintf(", at byte %d", r.entry.failed+1)
		}
		r.source.Examples = append(r.source.Examples, BadLine{Number: r.lines.number, Text: printable(text), Why: why})
	}
}

// finalError returns the error of Next after reading has ended with err.
func (r *Reader) finalError(err error) error {
	if err != io.EOF {
		r.source.Cut = r.in.cutReason(err)
		return inLog(r.source.Name, &cutError{r.source.Cut, err})
	}
	if r.source.Lines == 0 {
		return inLog(r.source.Name, errEmpty)
	}
	if r.source.Unreadable == r.source.Lines {
		first := r.source.Examples[0]
		return inLog(r.source.Name, fmt.Errorf("no line could be read in the format %s; line %d: %s (%s)",
			r.format, first.Number, first.Why, first.Text))
	}
	return io.EOF
}

var errEmpty = errors.New("it is empty")

// cutError is the error of a truncated log, with its cause.
type cutError struct {
	text  string
	cause error
}

func (e *cutError) Error() string { return e.text }
func (e *cutError) Unwrap() error { return e.cause }

// Source returns the counts of what has been read so far.
func (r *Reader) Source() Source { return r.source }

// BytesRead returns how many bytes of the file, compressed if it is, have been read so far. It is safe for concurrent
// use.
func (r *Reader) BytesRead() int64 { return r.in.bytesRead.Load() }

// Size returns the size of the file, compressed if it is, or -1 if it is unknown.
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
