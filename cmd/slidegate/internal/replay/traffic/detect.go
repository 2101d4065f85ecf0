package traffic

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"
)

// linesToDetect is the number of lines from which the format is detected.
const linesToDetect = 100

// detect returns the format that matches the most lines.
func detect(lines [][]byte, opts *Options) (*layout, error) {
	var best *layout
	most, combined := 0, 0
	for i := range layouts {
		n := countReadable(lines, &layouts[i], opts)
		if n > most {
			best, most = &layouts[i], n
		}
		if layouts[i].name == "combined" {
			combined = n
		}
	}
	switch {
	case most == 0:
		return nil, noFormat(lines)
	case best.name == "common" && 2*combined >= most:
		return findLayout("combined") // some of its lines are cut off
	}
	return best, nil
}

// countReadable counts the lines that a format matches. The fields of the key and the cost do not matter yet, except that
// JSON lines must have a key, unless the key is built from something else.
func countReadable(lines [][]byte, of *layout, opts *Options) int {
	var given map[string]string
	if of.name == "json" {
		given = opts.Fields // the others are detected by their default names
	}
	s, err := shapeOf(of, given)
	if err != nil {
		return 0
	}
	p := &plan{}
	if of.name == "lines" && opts.Key.IsZero() {
		p.wants.fields = setOf(fieldKey)
	}
	parser, err := s.newParser(p)
	if err != nil {
		return 0
	}
	if text, ok := parser.(*textParser); ok {
		text.whole = of.name == "combined" // otherwise a common log would look like a combined log that is cut off
	}
	n, e := 0, newEntry(p.wants)
	for _, line := range lines {
		if !isComment(parser, line) && parser.parse(line, e) == "" {
			n++
		}
	}
	return n
}

// firstLines returns the lines from which a format is detected, without empty ones. Text after the last newline is a line
// only if the input ends there, or if there is no other line.
func firstLines(text []byte, ended bool) [][]byte {
	var lines [][]byte
	for len(text) > 0 && len(lines) < linesToDetect {
		line, rest, whole := bytes.Cut(text, []byte{'\n'})
		if !whole && !ended && len(lines) > 0 {
			break
		}
		text = rest
		line = bytes.TrimSuffix(line, []byte{'\r'})
		if !isBlank(line) {
			lines = append(lines, line)
		}
	}
	return lines
}

func isBlank(line []byte) bool {
	return len(line) == 0 || line[0] <= ' ' && len(bytes.TrimSpace(line)) == 0
}

// noFormat returns the error for lines that no format matches.
func noFormat(lines [][]byte) error {
	text := bytes.Join(lines, []byte{'\n'})
	if bytes.HasPrefix(text, []byte{0xFF, 0xFE}) || bytes.HasPrefix(text, []byte{0xFE, 0xFF}) {
		return errors.New("it looks like UTF-16 text; convert it to UTF-8 first, for example with iconv -f UTF-16 -t UTF-8")
	}
	if isBinary(text) {
		return errors.New("it looks like a binary file; want an access log, plain or compressed with gzip or zstd")
	}
	what := "the first line"
	if len(lines) > 1 {
		what = fmt.Sprintf("any of the first %d lines", len(lines))
	}
	return invalid("Format", "no known format matches %s (%s); name one (%s); json reads any JSON log "+
		"if its time field is given", what, printable(lines[0]), strings.Join(FormatNames(), ", "))
}

// isBinary reports whether text contains a NUL, or is mostly unprintable.
func isBinary(text []byte) bool {
	if bytes.IndexByte(text, 0) >= 0 {
		return true
	}
	odd := 0
	for rest := text; len(rest) > 0; {
		r, size := utf8.DecodeRune(rest)
		if r == utf8.RuneError && size == 1 || !unicode.IsPrint(r) && !unicode.IsSpace(r) {
			odd += size
		}
		rest = rest[size:]
	}
	return odd*2 > len(text)
}

// printable returns the beginning of a line, escaped so that it is safe to print.
func printable(line []byte) string {
	line = line[:min(len(line), maxPrinted)]
	var b strings.Builder
	for len(line) > 0 {
		r, size := utf8.DecodeRune(line)
		if r == utf8.RuneError && size == 1 || !unicode.IsPrint(r) {
			for _, c := range line[:size] {
				fmt.Fprintf(&b, `\x%02x`, c)
			}
		} else {
			b.WriteRune(r)
		}
		line = line[size:]
	}
	return b.String()
}
