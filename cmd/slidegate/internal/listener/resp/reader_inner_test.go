package resp

import (
	"bytes"
	"errors"
	"io"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"testing/iotest"
	"time"
)

var testBounds = bounds{args: 8, bulk: 1024, command: 2048}

// readAll reads all commands of a stream, and returns them and the final error.
func readAll(source io.Reader, b bounds) (commands [][]string, err error) {
	r := newReader(source)
	for {
		args, ok, err := r.next(b)
		if err != nil {
			return commands, err
		}
		if ok {
			var command []string
			for _, arg := range args {
				command = append(command, string(arg))
			}
			commands = append(commands, command)
			continue
		}
		if err := r.fill(); err != nil {
			if r.begun() {
				return commands, io.ErrUnexpectedEOF
			}
			return commands, nil
		}
	}
}

func same(a, b [][]string) bool { return slices.EqualFunc(a, b, slices.Equal) }

// readerCase is a text, its commands, and the error after them.
type readerCase struct {
	text string
	want [][]string
	err  error
}

func readerCases() []readerCase {
	long := strings.Repeat("x", 1024)
	header := strings.Repeat("0", 30)
	return []readerCase{
		{"", nil, nil},
		{"*1\r\n$4\r\nPING\r\n", [][]string{{"PING"}}, nil},
		{"*2\r\n$4\r\nECHO\r\n$0\r\n\r\n*1\r\n$1\r\na\r\n", [][]string{{"ECHO", ""}, {"a"}}, nil},
		{"*2\r\n$2\r\n\r\n\r\n$3\r\n*1\r\r\n", [][]string{{"\r\n", "*1\r"}}, nil}, // any bytes
		{"*0\r\n*-1\r\n*-7\r\n*1\r\n$1\r\na\r\n", [][]string{{"a"}}, nil},         // ignored
		{"PING\r\n", nil, protocolError("expected '*', got 'P'")},
		{"\r\n", nil, protocolError("expected '*', got '?'")},
		{"*1\r\n$4\r\nPING\r\nPOST / HTTP/1.1\r\n", [][]string{{"PING"}}, protocolError("expected '*', got 'P'")},
		{"*1\r\n$1024\r\n" + long + "\r\n", [][]string{{long}}, nil},
		{"*1\r\n$1025\r\n", nil, errBulk},
		{"*1\r\n$536870912\r\n", nil, errBulk}, // 512 MiB
		{"*1\r\n$-1\r\n", nil, errBulk},
		{"*1\r\n$99999999999999999999\r\n", nil, errBulk},
		{"*1\r\n$x\r\n", nil, errBulk},
		{"*1\r\n$\r\n", nil, errBulk},
		{"*1\r\n$+1\r\n", nil, errBulk},
		{"*1\r\n$01\r\n", nil, errBulk},
		{"*1\r\n$-0\r\n", nil, errBulk},
		{"*1\r\n$1\n", nil, errBulk},
		{"*1\r\n$" + header, nil, errBulk},
		{"*1\r\n$1\r\nab\r\n", nil, errEnd},
		{"*1\r\n$1\r\na\n\r\n", nil, errEnd},
		{"*1\r\n$1\r\na\r\r\n", nil, errEnd},
		{"*1\r\n$1\r\nax\n", nil, errEnd},
		{"*1\r\n+OK\r\n", nil, protocolError("expected '$', got '+'")},
		{"*1\r\n\x00", nil, protocolError("expected '$', got '?'")},
		{"*8\r\n" + strings.Repeat("$1\r\na\r\n", 8), [][]string{{"a", "a", "a", "a", "a", "a", "a", "a"}}, nil},
		{"*9\r\n", nil, errArgs},
		{"*1000000\r\n", nil, errArgs},
		{"*99999999999999999999\r\n", nil, errArgs},
		{"*-99999999999999999999\r\n", nil, errArgs},
		{"*x\r\n", nil, errArgs},
		{"*\r\n", nil, errArgs},
		{"*1 \r\n", nil, errArgs},
		{"*1\n", nil, errArgs},
		{"*" + header, nil, errArgs},
		{"*2\r\n$1024\r\n" + long + "\r\n$1010\r\n", nil, errCommand}, // 4 + 7 + 1024 + 2, and then 7 + 1010 + 2, are 2056
		{"*2\r\n$1024\r\n" + long + "\r\n$1002\r\n" + long[:1002] + "\r\n", [][]string{{long, long[:1002]}}, nil}, // 2048
		{"*1\r\n$1\r\na\r\n*1\r\n$4\r\nPI", [][]string{{"a"}}, io.ErrUnexpectedEOF},
		{"*1\r", nil, io.ErrUnexpectedEOF},
		{"*1\r\n$4\r\nPING\r", nil, io.ErrUnexpectedEOF},
	}
}

func TestReader(t *testing.T) {
	for _, c := range readerCases() {
		for name, source := range map[string]io.Reader{
			"whole": strings.NewReader(c.text), "bytes": iotest.OneByteReader(strings.NewReader(c.text)),
			"halves": iotest.HalfReader(strings.NewReader(c.text)),
		} {
			got, err := readAll(source, testBounds)
			if !same(got, c.want) || !errors.Is(err, c.err) {
				t.Errorf("%.60q in %s: got %.100q, %v; want %.100q, %v", c.text, name, got, err, c.want, c.err)
			}
		}
	}
}

// An announced command takes no memory before it arrives.
func TestReaderMemory(t *testing.T) {
	b := bounds{args: 128, bulk: 1 << 20, command: 2 << 20}
	r := newReader(strings.NewReader("*3\r\n$1048576\r\nabc"))
	if err := r.fill(); err != nil {
		t.Fatal(err)
	}
	if _, ok, err := r.next(b); ok || err != nil || len(r.buf) > firstBuffer {
		t.Errorf("got %v, %v, a buffer of %d bytes", ok, err, len(r.buf))
	}
	// A large command makes the buffer grow to less than four times its size, and the buffer shrinks again.
	large := "*1\r\n$100000\r\n" + strings.Repeat("x", 100_000) + "\r\n"
	r = newReader(io.MultiReader(strings.NewReader(large), iotest.OneByteReader(strings.NewReader(strings.Repeat("*0\r\n", 250)))))
	for largest := 0; ; largest = max(largest, len(r.buf)) {
		if _, ok, err := r.next(b); ok || err != nil {
			if err != nil || largest > 400_000 {
				t.Fatalf("got %v, a buffer of %d bytes", err, largest)
			}
			break
		}
		if err := r.fill(); err != nil {
			t.Fatal(err)
		}
	}
	for r.fill() == nil {
		if _, ok, err := r.next(b); ok || err != nil || len(r.buf) > maxAhead {
			t.Fatalf("got %v, %v, a buffer of %d bytes", ok, err, len(r.buf))
		}
	}
	if len(r.buf) != firstBuffer {
		t.Errorf("after a large command and 1000 small reads: got a buffer of %d bytes", len(r.buf))
	}
	// A stream of small commands makes it grow to a bound.
	r = newReader(strings.NewReader(strings.Repeat("*1\r\n$4\r\nPING\r\n", 100_000)))
	n := 0
	for r.fill() == nil {
		for {
			_, ok, err := r.next(b)
			if err != nil {
				t.Fatal(err)
			}
			if !ok {
				break
			}
			n++
		}
		if len(r.buf) > 2*maxAhead {
			t.Fatalf("got a buffer of %d bytes", len(r.buf))
		}
	}
	if n != 100_000 {
		t.Errorf("got %d commands, want 100000", n)
	}
}

// FuzzReader compares the reader to decode, however the bytes are split.
func FuzzReader(f *testing.F) {
	for _, seed := range []string{"*1\r\n$4\r\nPING\r\n", "*2\r\n$1\r\na\r\n$-1\r\n", "*0\r\n*-1\r\nx\n",
		"*3\r\n$8\r\nSG.ALLOW\r\n$7\r\ndefault\r\n$3\r\nann\r\n*1\r\n",
		"*00000000000ѥ0000000000000"} { // one rune less than bytes
		f.Add([]byte(seed), uint8(3))
	}
	f.Fuzz(func(t *testing.T, text []byte, piece uint8) {
		want, wantErr := decode(text, testBounds)
		for name, source := range map[string]io.Reader{"whole": bytes.NewReader(text), "pieces": &pieces{text, int(piece)%7 + 1}} {
			got, err := readAll(source, testBounds)
			if !same(got, want) || (err == nil) != (wantErr == nil) || errors.Is(err, io.ErrUnexpectedEOF) != errors.Is(wantErr, io.ErrUnexpectedEOF) {
				t.Fatalf("%q in %s: got %q, %v; want %q, %v", text, name, got, err, want, wantErr)
			}
		}
	})
}

// pieces returns a fixed number of bytes at a time.
type pieces struct {
	rest []byte
	size int
}

func (p *pieces) Read(to []byte) (int, error) {
	if len(p.rest) == 0 {
		return 0, io.EOF
	}
	n := copy(to[:min(len(to), p.size)], p.rest)
	p.rest = p.rest[n:]
	return n, nil
}

// TestReaderMatchesModel does the same with texts made of pieces of the protocol, which come close to valid and invalid input
// far more often than random bytes.
func TestReaderMatchesModel(t *testing.T) {
	fragments := []string{"*1\r\n", "*2\r\n", "*0\r\n", "*-1\r\n", "*9\r\n", "*", "$4\r\n", "$0\r\n", "$1\r\n", "$-1\r\n", "$2000\r\n", "$", "PING", "a", "1",
		"\r\n", "\r", "\n", " ", "\x00", "\xff", "*1\r\n$4\r\nPING\r\n", "POST", strings.Repeat("x", 1020), strings.Repeat("0", 22)}
	seed := uint64(time.Now().UnixNano())
	random := rand.New(rand.NewPCG(seed, 0))
	for range 20_000 {
		var text []byte
		for range 1 + random.IntN(12) {
			text = append(text, fragments[random.IntN(len(fragments))]...)
		}
		want, wantErr := decode(text, testBounds)
		got, err := readAll(&pieces{text, 1 + random.IntN(9)*random.IntN(300)}, testBounds)
		if !same(got, want) || (err == nil) != (wantErr == nil) || errors.Is(err, io.ErrUnexpectedEOF) != errors.Is(wantErr, io.ErrUnexpectedEOF) {
			t.Fatalf("seed %d: %q: got %q, %v; want %q, %v", seed, text, got, err, want, wantErr)
		}
	}
}
