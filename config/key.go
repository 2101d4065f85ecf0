package config

import (
	"bytes"
	"slices"
)

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
//
// Where a name that the client gives itself is missing, and the address is not in the key anyway, AppendKeyOr has the address
// stand in. So that no client can give itself the address of another for a name, a name that begins with "address:" is written
// with a "%" before it, or with several fields with its first letter encoded.
func (t Template) AppendKey(dst []byte, values [][]byte) []byte {
	return t.AppendKeyOr(dst, values, nil)
}

// AppendKeyOr is AppendKey for requests whose client has an address: "address:" and the address stand in the place of a user, a
// key, a header or a field of JSON that is missing or empty, unless the template has the address in it. Otherwise all clients
// that leave out a header would share one key, and each could use up the quota of all others. If the template was made by
// FirstOf, they are the whole key where no alternative counts; all alternatives but the first have the names of their fields
// before their key, as in "user:alice". A nil address is one that is not known.
func (t Template) AppendKeyOr(dst []byte, values [][]byte, address []byte) []byte {
	if len(t.others) > 0 {
		return t.appendChosen(dst, values, address)
	}
	if t.hasAddress() {
		address = nil
	}
	from := len(dst)
	dst = t.appendFields(dst, values, address)
	if len(t.fields) == 1 && t.fields[0].Kind.namesClient() && len(values[0]) > 0 && t.isMarked(dst[from+len(t.literals[0]):]) {
		dst = slices.Insert(dst, from+len(t.literals[0]), '%')
	}
	return dst
}

// appendFields appends the key without looking at others.
func (t Template) appendFields(dst []byte, values [][]byte, address []byte) []byte {
	for i, field := range t.fields {
		dst = append(dst, t.literals[i]...)
		value := values[i]
		switch {
		case address != nil && len(value) == 0 && field.Kind.namesClient():
			dst = t.appendAddress(dst, address)
		case value == nil:
			dst = append(dst, t.missing...)
		case len(t.fields) > 1:
			if field.Kind.namesClient() && bytes.HasPrefix(value, []byte(addressMark)) {
				dst, value = append(dst, "%61"...), value[1:]
			}
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

// appendAddress appends the address in the place of a name.
func (t *Template) appendAddress(dst, address []byte) []byte {
	if len(t.fields) == 1 {
		return append(append(dst, addressMark...), address...)
	}
	return t.encoded.appendValue(t.encoded.appendValue(dst, []byte(addressMark)), address)
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
