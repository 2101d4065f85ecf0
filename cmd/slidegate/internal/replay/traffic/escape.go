package traffic

import (
	"bytes"
	"encoding/hex"
)

// scratch holds the unescaped texts of one line. Truncate it before the next line.
type scratch []byte

// from returns the bytes added since start. Adding more does not change them.
func (s *scratch) from(start int) []byte { return (*s)[start:len(*s):len(*s)] }

// unescape decodes the escapes that servers write for special bytes: \xHH, \n, \r, \t, \" and \\.
func (s *scratch) unescape(text []byte) []byte {
	i := bytes.IndexByte(text, '\\')
	if i < 0 {
		return text
	}
	start := len(*s)
	for ; i >= 0 && i+1 < len(text); i = bytes.IndexByte(text, '\\') {
		*s = append(*s, text[:i]...)
		text = text[i:]
		c, size := escaped(text)
		*s = append(*s, c)
		text = text[size:]
	}
	*s = append(*s, text...)
	return s.from(start)
}

// escaped decodes the escape at the start of text. An invalid escape is kept literally.
func escaped(text []byte) (c byte, size int) {
	switch c := text[1]; c {
	case '"', '\\':
		return c, 2
	case 'n':
		return '\n', 2
	case 'r':
		return '\r', 2
	case 't':
		return '\t', 2
	case 'x':
		var decoded [1]byte
		if len(text) >= 4 {
			if _, err := hex.Decode(decoded[:], text[2:4]); err == nil {
				return decoded[0], 4
			}
		}
	}
	return '\\', 1
}

// decodeHex decodes escapes of two hexadecimal digits after a mark, such as %20 or #22. Invalid ones are kept literally.
func (s *scratch) decodeHex(text []byte, mark byte) []byte {
	if bytes.IndexByte(text, mark) < 0 {
		return text
	}
	start := len(*s)
	for i := 0; i < len(text); i++ {
		var decoded [1]byte
		if text[i] == mark && i+2 < len(text) {
			if _, err := hex.Decode(decoded[:], text[i+1:i+3]); err == nil {
				*s = append(*s, decoded[0])
				i += 2
				continue
			}
		}
		*s = append(*s, text[i])
	}
	return s.from(start)
}
