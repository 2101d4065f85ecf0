package jsonscan

import (
	"bytes"
	"unicode/utf16"
	"unicode/utf8"
)

// Text returns the text of a raw value: a string without its quotes and escapes; numbers, literals and objects unchanged.
// For an array it returns the text of its first element, as for a header with one value. It returns nil for null, an
// empty array and a missing value. The result is valid until the next line.
func (s *Scanner) Text(raw []byte) []byte {
	for len(raw) > 0 && raw[0] == '[' {
		first := Scanner{line: raw}
		i := first.space(1)
		if first.at(i) == ']' {
			return nil
		}
		raw = raw[i:first.value(i, nil, 0)]
	}
	switch {
	case len(raw) == 0 || raw[0] == 'n':
		return nil
	case raw[0] == '"':
		return s.unquote(raw)
	}
	return raw
}

// unquote returns the text of a valid string, in scratch if it has escapes.
func (s *Scanner) unquote(raw []byte) []byte {
	raw = raw[1 : len(raw)-1]
	i := bytes.IndexByte(raw, '\\')
	if i < 0 {
		return raw
	}
	start := len(s.scratch)
	for ; i >= 0; i = bytes.IndexByte(raw, '\\') {
		s.scratch = append(s.scratch, raw[:i]...)
		raw = s.unescape(raw[i+1:])
	}
	s.scratch = append(s.scratch, raw...)
	return s.scratch[start:len(s.scratch):len(s.scratch)]
}

// unescape decodes the escape after a backslash, appends the result to scratch, and returns the rest of raw. An unpaired
// surrogate becomes U+FFFD, as in other JSON parsers.
func (s *Scanner) unescape(raw []byte) []byte {
	c := raw[0]
	switch c {
	case 'b':
		c = '\b'
	case 'f':
		c = '\f'
	case 'n':
		c = '\n'
	case 'r':
		c = '\r'
	case 't':
		c = '\t'
	case 'u':
		r := rune(hex4(raw[1:]))
		raw = raw[5:]
		if utf16.IsSurrogate(r) {
			low := rune(-1)
			if len(raw) >= 6 && raw[0] == '\\' && raw[1] == 'u' {
				low = rune(hex4(raw[2:]))
			}
			if r = utf16.DecodeRune(r, low); r != utf8.RuneError {
				raw = raw[6:]
			}
		}
		s.scratch = utf8.AppendRune(s.scratch, r)
		return raw
	}
	s.scratch = append(s.scratch, c)
	return raw[1:]
}

// hex4 parses four hexadecimal digits, or returns -1.
func hex4(text []byte) int {
	n := 0
	for _, c := range text[:4] {
		d := hexDigit(c)
		if d < 0 {
			return -1
		}
		n = n<<4 | d
	}
	return n
}

func hexDigit(c byte) int {
	switch {
	case c-'0' <= 9:
		return int(c - '0')
	case c|0x20 >= 'a' && c|0x20 <= 'f':
		return int(c|0x20-'a') + 10
	}
	return -1
}
