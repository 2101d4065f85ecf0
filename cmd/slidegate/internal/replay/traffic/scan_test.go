package traffic

import (
	"bytes"
	"errors"
	"io"
	"strings"
	"testing"
	"testing/iotest"

	"pgregory.net/rapid"
)

// scanAll returns the lines of a scanner; long ones are abbreviated to the beginning and "...".
func scanAll(s *scanner) (lines []string, err error) {
	for {
		line, tooLong, err := s.next()
		if err != nil {
			return lines, err
		}
		text := string(line)
		if tooLong {
			text += "..."
		}
		lines = append(lines, text)
	}
}

func TestLines(t *testing.T) {
	longest := strings.Repeat("x", maxLine)
	head := strings.Repeat("x", maxPrinted) + "..."
	for name, test := range map[string]struct {
		text string
		want []string
	}{
		"nothing":                     {"", nil},
		"one":                         {"a\n", []string{"a"}},
		"no end":                      {"a\nb", []string{"a", "b"}},
		"carriage returns":            {"a\r\n\r\nb\r", []string{"a", "", "b"}},
		"longest":                     {longest + "\nb\n", []string{longest, "b"}},
		"longest and \\r":             {longest + "\r\nb\n", []string{longest, "b"}},
		"too long":                    {"a\n" + longest + "y\nb\n", []string{"a", head, "b"}},
		"far too long":                {"a\n" + longest + longest + longest + longest + "\nb", []string{"a", head, "b"}},
		"too long without an end":     {"a\n" + longest + longest + longest, []string{"a", head}},
		"too long by one, at the end": {longest + "y", []string{head}},
	} {
		for _, reader := range []io.Reader{
			strings.NewReader(test.text),
			iotest.HalfReader(strings.NewReader(test.text)),
			iotest.DataErrReader(strings.NewReader(test.text)),
			splitAt(test.text, maxLine), splitAt(test.text, maxLine+1),
		} {
			s := newScanner(reader)
			got, err := scanAll(s)
			if err != io.EOF || strings.Join(got, "\n") != strings.Join(test.want, "\n") || len(got) != len(test.want) {
				t.Errorf("%s: %d lines, %v, want %d", name, len(got), err, len(test.want))
			}
			if int(s.number) != len(test.want) {
				t.Errorf("%s: got number %d for the last line, want %d", name, s.number, len(test.want))
			}
			if cap(s.long) > 4*maxLine {
				t.Errorf("%s: got a buffer of %d bytes", name, cap(s.long))
			}
		}
	}
}

// splitAt reads a text in two parts, so that a read ends at a difficult place.
func splitAt(text string, i int) io.Reader {
	i = min(i, len(text))
	return io.MultiReader(strings.NewReader(text[:i]), strings.NewReader(text[i:]))
}

// Whatever the sizes of lines and reads, and with or without looking ahead, the lines are those of the text.
func TestLinesAreThoseOfTheText(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		sizes := rapid.SliceOfN(rapid.OneOf(rapid.IntRange(0, 50), rapid.IntRange(0, 300_000)), 0, 20).Draw(t, "sizes")
		var want []string
		for i, size := range sizes {
			want = append(want, strings.Repeat(string(rune('a'+i)), size))
		}
		text := []byte(strings.Join(want, "\n"))
		if len(want) > 0 && want[len(want)-1] == "" {
			want = want[:len(want)-1] // a final newline does not begin another line
		}
		s := newScanner(&pieces{text: text, size: rapid.IntRange(1, 100_000).Draw(t, "piece") + len(text)/100})
		if n := rapid.IntRange(0, 10).Draw(t, "ahead"); n > 0 {
			if ahead, _ := s.ahead(n); !bytes.HasPrefix(text, ahead) {
				t.Fatal("ahead did not return the beginning of the text")
			}
		}
		got, err := scanAll(s)
		if err != io.EOF || len(got) != len(want) {
			t.Fatalf("%d lines, %v, want %d", len(got), err, len(want))
		}
		for i := range got {
			if got[i] != want[i] {
				t.Fatalf("line %d: got %d bytes, want %d", i+1, len(got[i]), len(want[i]))
			}
		}
	})
}

// pieces reads a text a few bytes at a time.
type pieces struct {
	text []byte
	size int
}

func (p *pieces) Read(into []byte) (int, error) {
	if len(p.text) == 0 {
		return 0, io.EOF
	}
	n := copy(into, p.text[:min(p.size, len(p.text))])
	p.text = p.text[n:]
	return n, nil
}

// A line in which reading failed is not returned; all lines before it are.
func TestFragmentIsNotALine(t *testing.T) {
	broken := errors.New("broken")
	s := newScanner(io.MultiReader(strings.NewReader("a\nb\nfragm"), iotest.ErrReader(broken)))
	got, err := scanAll(s)
	if err != broken || strings.Join(got, ",") != "a,b" {
		t.Errorf("got %q, %v, want a and b and the error", got, err)
	}
	s = newScanner(io.MultiReader(strings.NewReader("a\n"+strings.Repeat("x", 2*maxLine)), iotest.ErrReader(broken)))
	if got, err = scanAll(s); err != broken || len(got) != 1 {
		t.Errorf("got %d lines, %v, want one and the error", len(got), err)
	}
}

// A reader that never returns anything is abandoned, instead of being called forever.
func TestReaderWithoutProgress(t *testing.T) {
	if _, err := scanAll(newScanner(idle{})); err != io.ErrNoProgress {
		t.Errorf("got %v, want %v", err, io.ErrNoProgress)
	}
}

type idle struct{}

func (idle) Read([]byte) (int, error) { return 0, nil }
