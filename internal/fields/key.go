package fields

import (
	"bytes"
	"slices"
)

// missing replaces a missing value in a key, as in logs.
const missing = "-"

// AppendKey appends the key of a request to dst. The values are those of Fields, in the same order; nil means missing, which is
// not the same as empty. It panics if there are too few. It allocates only if dst has too little capacity.
//
// Different values always make different keys:
//
//   - With one field, the value is the key. Missing is written as "-". To keep that unique, a value that is itself "-" is written
//     as "%2D", a value "%2D" as "%252D", and so on.
//   - With several, bytes that could be confused with the end of a value are percent-encoded in it: the first byte of the text
//     between two fields (for "{user} {path}" the space), and "%" itself. Otherwise a user "a b" who requests "c" would share a key
//     with a user "a" who requests "b c", and each could use up the quota of the other. Missing is written as "-", and a value that
//     is itself "-" as "%2D". If "-" is the first byte of the text between two fields, missing is written as "%-".
//
// If a name that clients give themselves is missing, and the key does not contain the address, AppendKeyOr replaces it by the
// address. So that no client can use the address of another as its name, a name that begins with "address:" is written with a
// "%" before it, or in a template with several fields with its first letter encoded.
func (t Template) AppendKey(dst []byte, values [][]byte) []byte {
	return t.AppendKeyOr(dst, values, nil)
}

// AppendKeyOr is AppendKey for requests whose client has an address: a missing or empty user, key, header or field of JSON is
// replaced by "address:" and the address, unless the template contains the address. Otherwise all clients that omit a header
// would share one key, and each could use up the quota of all others. If the template was made by FirstOf, this is the whole
// key if no alternative applies; the keys of all alternatives but the first are preceded by the names of their fields, as in
// "user:alice". A nil address is unknown.
func (t Template) AppendKeyOr(dst []byte, values [][]byte, address []byte) []byte {
	if len(t.others) > 0 {
		return t.appendChosen(dst, values, address)
	}
	if t.hasAddress() {
		address = nil
	}
	from := len(dst)
	dst = t.appendFields(dst, values, address)
	if len(t.fields) == 1 && t.fields[0].Kind.NamesClient() && len(values[0]) > 0 && t.isMarked(dst[from+len(t.literals[0]):]) {
		dst = slices.Insert(dst, from+len(t.literals[0]), '%')
	}
	return dst
}

// KeyOf makes the key of a request. The fields are those of Fields, and value returns the value of one, nil if it is missing; it is
// called for the address only if that is part of the key.
func (t Template) KeyOf(fields []Field, value func(Field) []byte) string {
	var room [128]byte
	var values [8][]byte
	list := values[:0]
	for _, field := range fields {
		var one []byte
		if field.Kind != Address || len(t.others) == 0 {
			one = value(field)
		}
		list = append(list, one)
	}
	if !t.replacesName() {
		return string(t.AppendKey(room[:0], list))
	}
	_, start, ok := t.choose(list)
	if !ok {
		return string(t.AppendKeyOr(room[:0], list, value(Field{Kind: Address})))
	}
	for i := start; i < len(fields); i++ {
		if fields[i].Kind == Address {
			list[i] = value(fields[i])
		}
	}
	return string(t.AppendKey(room[:0], list))
}

// appendFields appends the key of this template, ignoring its alternatives.
func (t Template) appendFields(dst []byte, values [][]byte, address []byte) []byte {
	for i, field := range t.fields {
		dst = append(dst, t.literals[i]...)
		value := values[i]
		switch {
		case address != nil && len(value) == 0 && field.Kind.NamesClient():
			dst = t.appendAddress(dst, address)
		case value == nil:
			dst = append(dst, t.missing...)
		case len(t.fields) > 1:
			if field.Kind.NamesClient() && bytes.HasPrefix(value, []byte(addressMark)) {
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

// appendAddress appends the address in place of a name.
func (t *Template) appendAddress(dst, address []byte) []byte {
	if len(t.fields) == 1 {
		return append(append(dst, addressMark...), address...)
	}
	return t.encoded.appendValue(t.encoded.appendValue(dst, []byte(addressMark)), address)
}

// appendOnlyValue appends the value of a template's only field. Since nothing follows it, only the sign for missing has to be
// reserved.
func appendOnlyValue(dst, value []byte) []byte {
	if isEncodedDash(value) {
		if value[0] == '-' {
			return append(dst, "%2D"...)
		}
		return append(append(dst, "%25"...), value[1:]...)
	}
	return append(dst, value...)
}

// isEncodedDash reports whether value is "-" after any number of percent-encodings: "-", "%2D", "%252D", "%25252D", ...
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

// appendValue appends one of several values, with the bytes in s percent-encoded.
func (s *byteSet) appendValue(dst, value []byte) []byte {
	if string(value) == missing {
		return append(dst, "%2D"...)
	}
	plain := 0 // start of the bytes that are not yet appended
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
