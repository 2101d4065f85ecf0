package generate

import (
	"context"
	"io"
	"strconv"

	"github.com/slidegate/slidegate/cmd/slidegate/internal/replay/traffic"
)

// chunkBytes is how much is written at once.
const chunkBytes = 64 << 10

// WriteLines writes what is left of t as JSON lines: {"t":1767571200123.456,"key":"user-0001","cost":1}, with the time in
// milliseconds. It stops when ctx is done, after a whole line, and returns why.
func WriteLines(ctx context.Context, w io.Writer, t *Traffic) error {
	return write(ctx, w, t, appendLine)
}

// appendLine relies on keys and times that JSON need not escape, and all that this package makes are.
func appendLine(b []byte, line *traffic.Line) []byte {
	b = append(b, `{"t":`...)
	b = append(b, line.Time...)
	b = append(b, `,"key":"`...)
	b = append(b, line.Key...)
	b = append(b, `","cost":`...)
	b = strconv.AppendInt(b, line.Cost, 10)
	return append(b, "}\n"...)
}

// write writes a line for each request that is left, in chunks of whole lines.
func write(ctx context.Context, w io.Writer, t *Traffic, appendLine func([]byte, *traffic.Line) []byte) error {
	var line traffic.Line
	chunk := make([]byte, 0, chunkBytes+4<<10) // a line is shorter than the room that is added
	for ctx.Err() == nil {
		var end error
		for len(chunk) < chunkBytes && end == nil {
			if end = t.Next(&line); end == nil {
				chunk = appendLine(chunk, &line)
			}
		}
		if _, err := w.Write(chunk); err != nil {
			return err
		}
		if end != nil {
			return nil // io.EOF is all that Next returns
		}
		chunk = chunk[:0]
	}
	return context.Cause(ctx)
}
