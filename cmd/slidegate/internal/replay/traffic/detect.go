package traffic

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"
)

// linesToDetect is how many lines show the format.
const linesToDetect = 100

// detectionOrder has the pickier formats first: of two that read equally many lines the first is taken. Every combined
// log is a common one too, and any JSON can be described by fields.
var detectionOrder = []Format{
	FormatLines, FormatCaddy, FormatTraefik, FormatEnvoy, FormatJSON, FormatALB, FormatCloudFront, FormatHAProxy, FormatCombined, FormatCommon,
}

// detect returns the format that reads the most of the lines.
func detect(lines [][]byte, opts *Options) (Format, error) {
	best, most := FormatAuto, 0
	for _, format := range detectionOrder {
		if n := readable(lines, format, opts); n > most {
			best, most = format, n
		}
	}
	switch {
	case most == 0:
		return FormatAuto, noFormat(lines)
	case best == FormatCommon && 2*readable(lines, FormatCombined, opts) >= most:
		return FormatCombined, nil // of which some lines were cut short
	}
	return best, nil
}

// readable counts the lines that a format reads. What the key and the cost need does not matter yet, but that our own
// lines have a key, if the key is not made of something else.
func readable(lines [][]byte, format Format, opts *Options) int {
	var given map[string]string
	if format == FormatJSON {
		given = opts.Fields // the others are known by the names that they have by themselves
	}
	s, err := shapeOf(format, given)
	if err != nil {
		return 0
	}
	p := &plan{}
	if format == FormatLines && opts.Key.IsZero() {
		p.wants.fields = setOf(fieldKey)
	}
	parser, err := s.newParser(p)
	if err != nil {
		return 0
	}
	if text, ok := parser.(*clfParser); ok {
		text.whole = text.combined // a common log is not a combined one that was cut short
	}
	n, e := 0, newEntry(p.wants)
	for _, line := range lines {
		if !isComment(parser, line) && parser.parse(line, e) == "" {
			n++
		}
	}
	return n
}

// firstLines returns the lines to detect a format by, without empty ones. What stands after the last line's end is a
// line only if the input ends there.
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

// noFormat is the error for lines that no format reads.
func noFormat(lines [][]byte) error {
	text := bytes.Join(lines, []byte{'\n'})
	if bytes.HasPrefix(text, []byte{0xFF, 0xFE}) || bytes.HasPrefix(text, []byte{0xFE, 0xFF}) {
		return errors.New("it looks like text in UTF-16: convert it to UTF-8 first, as iconv -f UTF-16 -t UTF-8 does")
	}
	if isBinary(text) {
		return errors.New("it looks like a binary file: give an access log, plain or packed by gzip or zstd")
	}
	what := "the first line"
	if len(lines) > 1 {
		what = fmt.Sprintf("any of the first %d lines", len(lines))
	}
	return invalid("Format", "no format reads %s (%s); name one (%s); json reads any JSON log "+
		"when told where its time is", what, shown(lines[0]), strings.Join(FormatNames(), ", "))
}

// isBinary tells whether text has a NUL, or is unprintable for the most part.
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

// shown returns the beginning of a line in a form that can be printed anywhere.
func shown(line []byte) string {
	line = line[:min(len(line), bytesShown)]
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
