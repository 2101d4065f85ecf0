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

// maxWindow bounds the memory that unpacking zstd takes. It is what the zstd command accepts too unless told otherwise.
const maxWindow = 128 << 20

// input is a file that is read once: it counts what was taken from it and unpacks it.
type input struct {
	from    io.Reader
	taken   atomic.Int64
	failed  error // of from, io.EOF aside
	packing string
	release func() // what unpacking holds
}

// Read takes from the file as it is, packed or not.
func (in *input) Read(p []byte) (int, error) {
	n, err := in.from.Read(p)
	in.taken.Add(int64(n))
	if err != nil && err != io.EOF {
		in.failed = err
	}
	return n, err
}

// otherPackings are those that Slidegate does not read, with what unpacks them.
var otherPackings = []struct{ magic, name, command string }{
	{"\xFD7zXZ\x00", "xz", "xz -dc"},
	{"BZh", "bzip2", "bzip2 -dc"},
	{"\x04\x22\x4D\x18", "lz4", "lz4 -dc"},
	{"PK\x03\x04", "zip", "unzip -p"},
	{"\x1F\x9D", "compress", "uncompress -c"},
}

// unpack returns a reader of what is in the file, which it tells by the first bytes and not by the name.
func (in *input) unpack() (io.Reader, error) {
	in.release = func() {}
	r := bufio.NewReaderSize(in, roomToRead)
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
			return nil, fmt.Errorf("it is packed by %s, which is not read: unpack it and pipe it in, as %s does",
				other.name, other.command)
		}
	}
	return r, nil
}

// isZstd knows a frame of data, and a frame to be skipped as parallel packers put it first.
func isZstd(magic []byte) bool {
	return bytes.HasPrefix(magic, []byte{0x28, 0xB5, 0x2F, 0xFD}) ||
		len(magic) >= 4 && magic[0]&0xF0 == 0x50 && bytes.Equal(magic[1:4], []byte{0x2A, 0x4D, 0x18})
}

// whyCut says in words why reading ended with err before the end.
func (in *input) whyCut(err error) string {
	switch {
	case in.failed != nil || in.packing == "":
		return fmt.Sprintf("reading it failed: %v", err)
	case errors.Is(err, io.ErrUnexpectedEOF), err == io.EOF:
		return fmt.Sprintf("its %s data end in the middle: the file is not complete", in.packing)
	case errors.Is(err, zstd.ErrWindowSizeExceeded), errors.Is(err, zstd.ErrDecoderSizeExceeded):
		return fmt.Sprintf("its zstd data need more than %d MiB of memory: unpack it and pipe it in, as zstd -dc --long=31 does",
			maxWindow>>20)
	}
	return fmt.Sprintf("its %s data are damaged: %v", in.packing, err)
}
