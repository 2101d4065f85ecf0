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

// manyLines is a log that is longer than the buffers, packed too: its keys do not repeat.
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

func TestPacked(t *testing.T) {
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
			t.Errorf("%s: refused: %v", name, err)
			continue
		}
		if got := read(t, r); len(got) != n {
			t.Errorf("%s: %d requests, want %d", name, len(got), n)
		}
		if got := r.Source().Packing; got != test.packing {
			t.Errorf("%s: packing %q, want %q", name, got, test.packing)
		}
		if got := r.BytesRead(); got != int64(len(test.file)) {
			t.Errorf("%s: %d bytes read, want %d", name, got, len(test.file))
		}
		if r.Size() != -1 {
			t.Errorf("%s: size %d, want -1: it is not a file", name, r.Size())
		}
		r.Close()
	}
}

// readUntilError returns how many requests came before the error.
func readUntilError(r *Reader) (int, error) {
	var line Line
	for n := 0; ; n++ {
		if err := r.Next(&line); err != nil {
			return n, err
		}
	}
}

// A file that was cut or damaged gives out what comes before that, and then an error that names the file.
func TestCutFile(t *testing.T) {
	text := manyLines(30_000)
	for packing, pack := range map[string]func([]byte) []byte{"gzip": gzipped, "zstd": zstded} {
		whole := pack(text)
		damaged := bytes.Clone(whole)
		copy(damaged[len(whole)/2:], bytes.Repeat([]byte{0xA5}, 4000))
		for name, test := range map[string]struct {
			file []byte
			want string
		}{
			"cut in the middle":        {whole[:len(whole)/2], "traffic: day.log: its " + packing + " data end in the middle"},
			"cut before the last byte": {whole[:len(whole)-1], "traffic: day.log: its " + packing + " data end in the middle"},
			"damaged":                  {damaged, "traffic: day.log: its " + packing + " data are damaged"},
		} {
			r, err := NewReader("day.log", bytes.NewReader(test.file), Options{})
			if err != nil {
				t.Errorf("%s %s: refused before it was read: %v", packing, name, err)
				continue
			}
			n, err := readUntilError(r)
			if err == io.EOF || !strings.HasPrefix(err.Error(), test.want) {
				t.Errorf("%s %s: error %v, want %s", packing, name, err, test.want)
			}
			// Gzip notices damage only when what it unpacks makes no sense to itself, and our lines notice it before.
			if n < 7_500 || n > 30_000 || r.Source().Unreadable != 0 && name != "damaged" {
				t.Errorf("%s %s: %d requests before it and %d lines unreadable, want about half and none", packing, name, n,
					r.Source().Unreadable)
			}
			if cut := r.Source().Cut; cut == "" || !strings.HasSuffix(err.Error(), cut) {
				t.Errorf("%s %s: the source says %q, the error %q", packing, name, cut, err)
			}
			if _, again := readUntilError(r); again != err {
				t.Errorf("%s %s: the next call returns %v, want the same error", packing, name, again)
			}
		}
	}
}

// What is cut before its first line cannot be opened, nor what is packed in a way that is not read.
func TestCannotBeUnpacked(t *testing.T) {
	for name, test := range map[string]struct{ file, want string }{
		"gzip header":   {string(gzipped([]byte("a"))[:5]), "its gzip data end in the middle"},
		"gzip magic":    {"\x1F\x8B", "its gzip data end in the middle"},
		"gzip line":     {string(gzipped(manyLines(1))[:30]), "its gzip data end in the middle"},
		"not gzip":      {"\x1F\x8Bxxxxxxxxxxxxxx", "its gzip data are damaged"},
		"zstd line":     {string(zstded(manyLines(1))[:20]), "its zstd data end in the middle"},
		"xz":            {"\xFD7zXZ\x00\x00\x04", "it is packed by xz, which is not read: unpack it and pipe it in, as xz -dc does"},
		"bzip2":         {"BZh91AY&SY", "it is packed by bzip2"},
		"zip":           {"PK\x03\x04\x14\x00", "it is packed by zip"},
		"gzip, nothing": {string(gzipped(nil)), "it is empty"},
	} {
		_, err := NewReader("day.log", strings.NewReader(test.file), Options{})
		if err == nil || !strings.HasPrefix(err.Error(), "traffic: day.log: "+test.want) {
			t.Errorf("%s: error %v, want %s", name, err, test.want)
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
	if n != 3 || !errors.Is(err, broken) || err.Error() != "traffic: day.log: reading it failed: the disk is broken" {
		t.Errorf("%d requests and then %v", n, err)
	}
	if _, err = NewReader("day.log", iotest.ErrReader(broken), Options{}); !errors.Is(err, broken) {
		t.Errorf("opening: %v, want that the disk is broken", err)
	}
}
