package generate

import (
	"context"
	"io"
	"strconv"

	"github.com/slidegate/slidegate/cmd/slidegate/internal/replay/traffic"
)

// chunkBytes is the approximate size of each write.
const chunkBytes = 64 << 10

// WriteLines writes the rest of t as JSON lines: {"t":1767571200123.456,"key":"user-0001","cost":1}, with the time in
// milliseconds. It stops after a whole line when ctx is done, and returns the cause.
func WriteLines(ctx context.Context, w io.Writer, t *Traffic) error {
	return write(ctx, w, t, appendLine)
}

// appendLine does not escape keys and times: those of this package need no escaping in JSON.
func appendLine(b []byte, line *traffic.Line) []byte {
	b = append(b, `{"t":`...)
	b = append(b, line.Time...)
	b = append(b, `,"key":"`...)
	b = append(b, line.Key...)
	b = append(b, `","cost":`...)
	b = strconv.AppendInt(b, line.Cost, 10)
	return append(b, "}\n"...)
}

// write writes one line per remaining request, in chunks of whole lines.
func write(ctx context.Context, w io.Writer, t *Traffic, appendLine func([]byte, *traffic.Line) []byte) error {
	var line traffic.Line
	chunk := make([]byte, 0, chunkBytes+4<<10) // a line is shorter than the extra space
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
			return nil // Next returns no other error than io.EOF
		}
		chunk = chunk[:0]
	}
	return context.Cause(ctx)
}
