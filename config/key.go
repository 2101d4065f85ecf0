package config

// missing is what stands in a key for a value that is missing. Logs write it so.
const missing = "-"

// AppendKey appends the key of a request to dst. The values are those of Fields, in the same order; nil is one that is
// missing, which is not the same as one that is empty. It panics if there are too few. It allocates only if dst has no
// room.
//
// Different values always make different keys:
//
//   - With one field, the value stands in the key as it is. Missing is written as "-". So that nothing else is, a value
//     that is itself "-" is written as "%2D", one that is "%2D" as "%252D", and so on.
//   - With several, whatever could be taken for the end of a value is percent-encoded in it: the byte that begins the
//     text between two fields (for "{user} {path}" the space), and "%" itself. Otherwise a user "a b" who asks for "c"
//     would share a key with a user "a" who asks for "b c", and each could use up the quota of the other. Missing is
//     written as "-", and a value that is itself "-" as "%2D". Where "-" begins the text between two fields, missing is
//     written as "%-".
func (t Template) AppendKey(dst []byte, values [][]byte) []byte {
	for i := range t.fields {
		dst = append(dst, t.literals[i]...)
		value := values[i]
		switch {
		case value == nil:
			dst = append(dst, t.missing...)
		case len(t.fields) > 1:
			dst = t.encoded.appendValue(dst, value)
		default:
			dst = appendOnlyValue(dst, value)
		}
	}
	if len(t.fields) > 0 {
		dst = append(dst, t.literals[len(t.fields)]...)
	}
	return dst
}

// appendOnlyValue appends the value of a template's only field. Since nothing has to be found again after it, only the
// sign for missing has to be kept free.
func appendOnlyValue(dst, value []byte) []byte {
	if isEncodedDash(value) {
		if value[0] == '-' {
			return append(dst, "%2D"...)
		}
		return append(append(dst, "%25"...), value[1:]...)
	}
	return append(dst, value...)
}

// isEncodedDash tells whether value is "-" after any number of percent-encodings: "-", "%2D", "%252D", "%25252D", ...
func isEncodedDash(value []byte) bool {
	if len(value) == 1 {
		return value[0] == '-'
	}
	if len(value) < 3 || value[0] != '%' || string(value[len(value)-2:]) != "2D" {
		return false
	}
	between := value[1 : len(value)-2]
	for len(between) >= 2 && between[0] == '2' && between[1] == '5' {
		between = between[2:]
	}
	return len(between) == 0
}

// byteSet is a set of bytes.
type byteSet [4]uint64

func (s *byteSet) add(c byte) { s[c>>6] |= 1 << (c & 63) }

func (s *byteSet) has(c byte) bool { return s[c>>6]>>(c&63)&1 != 0 }

// appendValue appends one of several values, with the bytes of s percent-encoded.
func (s *byteSet) appendValue(dst, value []byte) []byte {
	if string(value) == missing {
		return append(dst, "%2D"...)
	}
	plain := 0 // where the bytes begin that were not appended yet
	for i, c := range value {
		if s.has(c) {
			const hex = "0123456789ABCDEF"
			dst = append(dst, value[plain:i]...)
			dst = append(dst, '%', hex[c>>4], hex[c&15])
			plain = i + 1
		}
	}
	return append(dst, value[plain:]...)
}
