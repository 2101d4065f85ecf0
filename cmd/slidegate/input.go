package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/slidegate/slidegate/cmd/slidegate/internal/replay/traffic"
)

// input is the traffic to replay.
type input struct {
	lines   traffic.Lines
	readers []*traffic.Reader
}

// openFiles opens all logs before it reads the first.
func openFiles(ctx context.Context, names []string, stdin io.Reader, opts traffic.Options) (in *input, err error) {
	in = &input{}
	defer func() {
		if err != nil {
			in.close()
		}
	}()
	var lines []traffic.Lines
	stdinUsed := false
	for _, name := range names {
		var reader *traffic.Reader
		if name == "-" {
			if stdinUsed {
				return in, errors.New("standard input (-) is given twice")
			}
			if file, ok := stdin.(*os.File); ok && isTerminal(file) {
				return in, errors.New("standard input (-) is a terminal; pipe a log in, as in: zcat *.gz | slidegate replay -")
			}
			stdinUsed = true
			reader, err = traffic.NewReader("standard input", interruptible(ctx, stdin), opts)
		} else {
			reader, err = traffic.Open(name, opts)
		}
		if err != nil {
			return in, err
		}
		in.readers = append(in.readers, reader)
		lines = append(lines, reader)
	}
	in.lines = traffic.Merge(lines...)
	return in, nil
}

// size returns the bytes of all logs, or -1 if it is unknown, as that of a pipe.
func (in *input) size() (bytes int64) {
	for _, r := range in.readers {
		if r.Size() < 0 {
			return -1
		}
		bytes += r.Size()
	}
	return bytes
}

// read returns how many of them have been read.
func (in *input) read() (bytes int64) {
	for _, r := range in.readers {
		bytes += r.BytesRead()
	}
	return bytes
}

func (in *input) sources() (all []traffic.Source) {
	for _, r := range in.readers {
		all = append(all, r.Source())
	}
	return all
}

// title names the traffic, for the report.
func (in *input) title() string {
	name := in.readers[0].Source().Name
	if more := len(in.readers) - 1; more > 0 {
		return fmt.Sprintf("%s and %d more", name, more)
	}
	return name
}

// noRequests returns an error that says why there was no request to replay, or nil if err already does.
func (in *input) noRequests(err error) error {
	if err != nil {
		return nil
	}
	var lines, filtered, unmatched int64
	for _, s := range in.sources() {
		lines += s.Lines
		filtered += s.Filtered
		unmatched += s.Unmatched
	}
	why := fmt.Sprintf("no requests to replay: the filters excluded %d of %d lines", filtered, lines)
	if unmatched > 0 {
		why += fmt.Sprintf(", and %d match no policy (see match)", unmatched)
	}
	return errors.New(why)
}

func (in *input) close() {
	for _, r := range in.readers {
		r.Close() // opened for reading, so an error loses nothing
	}
}

// interruptible returns a reader of r whose Read returns when ctx ends, even while r blocks, such as a pipe that is held open. The
// data is read by a goroutine that ends when r does.
func interruptible(ctx context.Context, r io.Reader) io.Reader {
	if file, ok := r.(*os.File); ok {
		if info, err := file.Stat(); err == nil && info.Mode().IsRegular() {
			return r
		}
	}
	in, out := io.Pipe()
	context.AfterFunc(ctx, func() { out.CloseWithError(ctx.Err()) })
	go func() {
		_, err := io.CopyBuffer(struct{ io.Writer }{out}, struct{ io.Reader }{r}, make([]byte, 1<<18))
		out.CloseWithError(err) // nil means io.EOF
	}()
	return in
}
