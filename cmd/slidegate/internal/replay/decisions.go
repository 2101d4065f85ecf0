package replay

import (
	"bufio"
	"bytes"
	"encoding/json"
	"io"
	"strconv"

	"github.com/slidegate/slidegate/cmd/slidegate/internal/replay/traffic"
	"github.com/slidegate/slidegate/internal/answering"
	"github.com/slidegate/slidegate/rule"
)

// decisions writes one JSON line per request, in the order of the input, which may differ from the order of the
// decisions.
type decisions struct {
	out  *bufio.Writer
	err  error
	text []byte // the beginnings of the lines of undecided requests
	from int    // where in text the next one begins

	next    int64              // the position in the input of the next line to write
	waiting map[int64]decision // later requests that are already decided
	line    []byte
}

type decision struct {
	allowed   bool
	remaining int64
	retry     rule.Micros
	reset     rule.Micros
}

func newDecisions(w io.Writer) *decisions {
	return &decisions{out: bufio.NewWriterSize(w, 1<<18), waiting: map[int64]decision{}}
}

// appendRequest appends the beginning of a line, which repeats the request, and a newline.
func appendRequest(to []byte, line *traffic.Line) []byte {
	to = append(to, `{"t":`...)
	to = append(to, line.Time...)
	to = append(to, `,"key":`...)
	to = appendJSON(to, line.Key)
	to = append(to, `,"cost":`...)
	to = strconv.AppendInt(to, line.Cost, 10)
	return append(to, '\n')
}

// appendJSON appends text as a JSON string.
func appendJSON(to, text []byte) []byte {
	for _, b := range text {
		if b < ' ' || b > '~' || b == '"' || b == '\\' {
			var quoted bytes.Buffer
			encoder := json.NewEncoder(&quoted)
			encoder.SetEscapeHTML(false)
			_ = encoder.Encode(string(text)) // a string can always be encoded
			return append(to, bytes.TrimSuffix(quoted.Bytes(), []byte("\n"))...)
		}
	}
	to = append(to, '"')
	to = append(to, text...)
	return append(to, '"')
}

// addLines appends the beginnings of further lines, in the order of the input.
func (d *decisions) addLines(text []byte) {
	if d.from > len(d.text)/2 {
		d.text = d.text[:copy(d.text, d.text[d.from:])]
		d.from = 0
	}
	d.text = append(d.text, text...)
}

// record records the decision on a request whose beginning has been read.
func (d *decisions) record(seq int64, answers []rule.Answer) {
	index, allowed := answering.Deciding(answers)
	a := &answers[index]
	own := decision{allowed, a.Remaining, a.RetryAfter, a.ResetAfter}
	if seq != d.next {
		d.waiting[seq] = own
		return
	}
	for ok := true; ok; own, ok = d.waiting[d.next] {
		delete(d.waiting, d.next)
		d.write(own)
		d.next++
	}
}

func (d *decisions) write(own decision) {
	request := d.text[d.from:]
	request = request[:bytes.IndexByte(request, '\n')]
	d.from += len(request) + 1

	line := append(d.line[:0], request...)
	line = append(line, `,"allowed":`...)
	line = strconv.AppendBool(line, own.allowed)
	line = append(line, `,"remaining":`...)
	line = strconv.AppendInt(line, own.remaining, 10)
	line = append(line, `,"retry_after_us":`...)
	if own.retry == rule.Never {
		line = append(line, "null"...)
	} else {
		line = strconv.AppendInt(line, int64(own.retry), 10)
	}
	line = append(line, `,"reset_after_us":`...)
	line = strconv.AppendInt(line, int64(own.reset), 10)
	line = append(line, "}\n"...)
	if _, err := d.out.Write(line); err != nil && d.err == nil {
		d.err = invalid("Decisions", "%w", err)
	}
	d.line = line
}

func (d *decisions) flush() error {
	if err := d.out.Flush(); err != nil && d.err == nil {
		d.err = invalid("Decisions", "%w", err)
	}
	return d.err
}
