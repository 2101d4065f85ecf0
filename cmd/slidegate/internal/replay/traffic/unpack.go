package traffic

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"sync/atomic"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"
)

// maxWindow is the maximum memory for decompressing zstd. It is the default of the zstd command.
const maxWindow = 128 << 20

// input is a file that is read once: it counts the bytes read and decompresses them.
type input struct {
	from      io.Reader
	bytesRead atomic.Int64
	failed    error // the error of from, except io.EOF
	packing   string
	release   func() // frees the decompressor
}

// Read reads from the file without decompressing.
func (in *input) Read(p []byte) (int, error) {
	n, err := in.from.Read(p)
	in.bytesRead.Add(int64(n))
	if err != nil && err != io.EOF {
		in.failed = err
	}
	return n, err
}

// otherPackings are compression formats that are not supported, with commands that decompress them.
var otherPackings = []struct{ magic, name, command string }{
	{"\xFD7zXZ\x00", "xz", "xz -dc"},
	{"BZh", "bzip2", "bzip2 -dc"},
	{"\x04\x22\x4D\x18", "lz4", "lz4 -dc"},
	{"PK\x03\x04", "zip", "unzip -p"},
	{"\x1F\x9D", "compress", "uncompress -c"},
}

// unpack returns a reader of the decompressed file. It detects the compression from the first bytes, not from the name.
func (in *input) unpack() (io.Reader, error) {
	in.release = func() {}
	r := bufio.NewReaderSize(in, 64<<10)
	magic, err := r.Peek(6)
	if err != nil && err != io.EOF {
		return nil, err
	}
	switch {
	case bytes.HasPrefix(magic, []byte{0x1F, 0x8B}):
		in.packing = "gzip"
		unpacked, err := gzip.NewReader(r)
		if err != nil {
			return nil, err
		}
		return unpacked, nil
	case isZstd(magic):
		in.packing = "zstd"
		unpacked, err := zstd.NewReader(r, zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxWindow(maxWindow))
		if err != nil {
			return nil, err
		}
		in.release = unpacked.Close
		return unpacked, nil
	}
	for _, other := range otherPackings {
		if bytes.HasPrefix(magic, []byte(other.magic)) {
			return nil, fmt.Errorf("it is compressed with %s, which is not supported; pipe it in, decompressed with %s",
				other.name, other.command)
		}
	}
	return r, nil
}

// isZstd reports whether magic begins a zstd frame, or a skippable frame, with which parallel compressors start.
func isZstd(magic []byte) bool {
	return bytes.HasPrefix(magic, []byte{0x28, 0xB5, 0x2F, 0xFD}) ||
		len(magic) >= 4 && magic[0]&0xF0 == 0x50 && bytes.Equal(magic[1:4], []byte{0x2A, 0x4D, 0x18})
}

// cutReason explains why reading ended early with err.
func (in *input) cutReason(err error) string {
	switch {
	case in.failed != nil || in.packing == "":
		return fmt.Sprintf("reading failed: %v", err)
	case errors.Is(err, io.ErrUnexpectedEOF), err == io.EOF:
		return fmt.Sprintf("its %s data ends early: the file is truncated", in.packing)
	case errors.Is(err, zstd.ErrWindowSizeExceeded), errors.Is(err, zstd.ErrDecoderSizeExceeded):
		return fmt.Sprintf("its zstd data needs more than %d MiB of memory; pipe it in, decompressed with zstd -dc --long=31",
			maxWindow>>20)
	}
	return fmt.Sprintf("its %s data is corrupt: %v", in.packing, err)
}
