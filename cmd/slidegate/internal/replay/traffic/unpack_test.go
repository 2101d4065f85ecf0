package traffic

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"
)

// manyLines returns a log that is longer than the buffers, even compressed: its keys do not repeat.
func manyLines(n int) []byte {
	var b bytes.Buffer
	hash := uint64(1)
	for i := range n {
		hash = hash*6364136223846793005 + 1442695040888963407
		fmt.Fprintf(&b, `{"t":%d,"key":"%016x"}`+"\n", 1794725314000+int64(i), hash)
	}
	return b.Bytes()
}

func gzipped(text []byte) []byte {
	var b bytes.Buffer
	w := gzip.NewWriter(&b)
	w.Write(text)
	w.Close()
	return b.Bytes()
}

func zstded(text []byte) []byte {
	var b bytes.Buffer
	w, _ := zstd.NewWriter(&b)
	w.Write(text)
	w.Close()
	return b.Bytes()
}

func half(text []byte) (first, second []byte) {
	i := bytes.IndexByte(text[len(text)/2:], '\n') + len(text)/2 + 1
	return text[:i], text[i:]
}

func TestCompressed(t *testing.T) {
	const n = 10_000
	text := manyLines(n)
	first, second := half(text)
	skippable := []byte{0x50, 0x2A, 0x4D, 0x18, 4, 0, 0, 0, 'p', 'z', 's', 't'}
	for name, test := range map[string]struct {
		file    []byte
		packing string
	}{
		"plain":             {text, ""},
		"gzip":              {gzipped(text), "gzip"},
		"gzip, two members": {append(gzipped(first), gzipped(second)...), "gzip"},
		"zstd":              {zstded(text), "zstd"},
		"zstd, two frames":  {append(zstded(first), zstded(second)...), "zstd"},
		"zstd, as pzstd":    {append(skippable, zstded(text)...), "zstd"},
	} {
		r, err := NewReader("log", bytes.NewReader(test.file), Options{})
		if err != nil {
			t.Errorf("%s: got error %v, want none", name, err)
			continue
		}
		if got := read(t, r); len(got) != n {
			t.Errorf("%s: %d requests, want %d", name, len(got), n)
		}
		if got := r.Source().Packing; got != test.packing {
			t.Errorf("%s: got packing %q, want %q", name, got, test.packing)
		}
		if got := r.BytesRead(); got != int64(len(test.file)) {
			t.Errorf("%s: %d bytes read, want %d", name, got, len(test.file))
		}
		if r.Size() != -1 {
			t.Errorf("%s: got size %d, want -1, since it is not a file", name, r.Size())
		}
		r.Close()
	}
}

// readUntilError returns the number of requests before the error.
func readUntilError(r *Reader) (int, error) {
	var line Line
	for n := 0; ; n++ {
		if err := r.Next(&line); err != nil {
			return n, err
		}
	}
}

// A truncated or corrupt file returns the requests before the damage, and then an error that names the file.
func TestTruncatedFile(t *testing.T) {
	text := manyLines(30_000)
	for packing, pack := range map[string]func([]byte) []byte{"gzip": gzipped, "zstd": zstded} {
		whole := pack(text)
		damaged := bytes.Clone(whole)
		copy(damaged[len(whole)/2:], bytes.Repeat([]byte{0xA5}, 4000))
		for name, test := range map[string]struct {
			file []byte
			want string
		}{
			"cut in the middle":        {whole[:len(whole)/2], "traffic: day.log: its " + packing + " data ends early"},
			"cut before the last byte": {whole[:len(whole)-1], "traffic: day.log: its " + packing + " data ends early"},
			"damaged":                  {damaged, "traffic: day.log: its " + packing + " data is corrupt"},
		} {
			r, err := NewReader("day.log", bytes.NewReader(test.file), Options{})
			if err != nil {
				t.Errorf("%s %s: got error %v from opening, want none", packing, name, err)
				continue
			}
			n, err := readUntilError(r)
			if err == io.EOF || !strings.HasPrefix(err.Error(), test.want) {
				t.Errorf("%s %s: got error %v, want %s", packing, name, err, test.want)
			}
			// Gzip detects damage only when the data becomes inconsistent, and the lines show it before.
			if n < 7_500 || n > 30_000 || r.Source().Unreadable != 0 && name != "damaged" {
				t.Errorf("%s %s: %d requests before it and %d lines unreadable, want about half and none", packing, name, n,
					r.Source().Unreadable)
			}
			if cut := r.Source().Cut; cut == "" || !strings.HasSuffix(err.Error(), cut) {
				t.Errorf("%s %s: got %q in the source and %q in the error", packing, name, cut, err)
			}
			if _, again := readUntilError(r); again != err {
				t.Errorf("%s %s: got %v from the next call, want the same error", packing, name, again)
			}
		}
	}
}

// A file that is truncated before the end of its first line cannot be opened, nor one in an unsupported compression
// format.
func TestCannotBeDecompressed(t *testing.T) {
	for name, test := range map[string]struct{ file, want string }{
		"gzip header":   {string(gzipped([]byte("a"))[:5]), "its gzip data ends early"},
		"gzip magic":    {"\x1F\x8B", "its gzip data ends early"},
		"gzip line":     {string(gzipped(manyLines(1))[:30]), "its gzip data ends early"},
		"not gzip":      {"\x1F\x8Bxxxxxxxxxxxxxx", "its gzip data is corrupt"},
		"zstd line":     {string(zstded(manyLines(1))[:20]), "its zstd data ends early"},
		"xz":            {"\xFD7zXZ\x00\x00\x04", "it is compressed with xz, which is not supported; pipe it in, decompressed with xz -dc"},
		"bzip2":         {"BZh91AY&SY", "it is compressed with bzip2"},
		"zip":           {"PK\x03\x04\x14\x00", "it is compressed with zip"},
		"gzip, nothing": {string(gzipped(nil)), "it is empty"},
	} {
		_, err := NewReader("day.log", strings.NewReader(test.file), Options{})
		if err == nil || !strings.HasPrefix(err.Error(), "traffic: day.log: "+test.want) {
			t.Errorf("%s: got error %v, want %s", name, err, test.want)
		}
	}
}

func TestReadingFails(t *testing.T) {
	broken := errors.New("the disk is broken")
	r, err := NewReader("day.log", io.MultiReader(bytes.NewReader(manyLines(3)), iotest.ErrReader(broken)), Options{})
	if err != nil {
		t.Fatal(err)
	}
	n, err := readUntilError(r)
	if n != 3 || !errors.Is(err, broken) || err.Error() != "traffic: day.log: reading failed: the disk is broken" {
		t.Errorf("got %d requests and then %v", n, err)
	}
	if _, err = NewReader("day.log", iotest.ErrReader(broken), Options{}); !errors.Is(err, broken) {
		t.Errorf("opening: got %v, want the error of the disk", err)
	}
}
