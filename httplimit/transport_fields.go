package httplimit

import (
	"encoding/base64"
	"strconv"
	"strings"
)

// fieldValue is a value in a structured field (RFC 9651). Of values that are neither names nor whole numbers, which RateLimit
// has no use for, only the syntax is checked.
type fieldValue struct {
	kind fieldKind
	text string
	n    int64
}

type fieldKind uint8

const (
	fieldOther fieldKind = iota
	fieldName            // a String, or a Token, which some servers send instead; in text
	fieldWhole           // an Integer, in n
)

// isZero reports whether v is the number 0.
func (v fieldValue) isZero() bool { return v.kind == fieldWhole && v.n == 0 }

// fieldItem is an item with those of its parameters that RateLimit has.
type fieldItem struct {
	value fieldValue
	r, t  fieldValue
}

// readList calls each with the items of a List, and reports whether it is well-formed: if not, nothing of it counts.
func readList(lines []string, each func(fieldItem)) bool {
	return readMembers(lines, false, func(_ string, item fieldItem) { each(item) })
}

// readDictionary calls each with the members of a Dictionary, and reports whether it is well-formed.
func readDictionary(lines []string, each func(key string, value fieldValue)) bool {
	return readMembers(lines, true, func(key string, item fieldItem) { each(key, item.value) })
}

func readMembers(lines []string, keyed bool, each func(key string, item fieldItem)) bool {
	f := &fieldReader{strings.TrimLeft(strings.Join(lines, ", "), " ")}
	for f.rest != "" {
		var key string
		var item fieldItem
		ok := true
		if keyed {
			key, ok = f.key()
		}
		if !keyed || f.next('=') {
			ok = ok && f.member(&item)
		} else {
			ok = ok && f.parameters(&item)
		}
		if !ok {
			return false
		}
		each(key, item)
		if f.skip(" \t"); f.rest == "" {
			return true
		}
		comma := f.next(',')
		if f.skip(" \t"); !comma || f.rest == "" {
			return false
		}
	}
	return true
}

// fieldReader reads a field from its beginning. What is wrong makes its methods return false.
type fieldReader struct{ rest string }

// next takes c away if it comes next, and reports whether it did.
func (f *fieldReader) next(c byte) bool {
	if f.rest == "" || f.rest[0] != c {
		return false
	}
	f.rest = f.rest[1:]
	return true
}

// skip takes characters away, and returns them.
func (f *fieldReader) skip(characters string) string {
	rest := strings.TrimLeft(f.rest, characters)
	skipped := f.rest[:len(f.rest)-len(rest)]
	f.rest = rest
	return skipped
}

const (
	digits     = "0123456789"
	lowercase  = "abcdefghijklmnopqrstuvwxyz"
	letters    = lowercase + "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
	tokenRunes = letters + digits + "!#$%&'*+-.^_`|~:/"
)

func (f *fieldReader) key() (key string, ok bool) {
	if f.rest == "" || !strings.Contains(lowercase+"*", f.rest[:1]) {
		return "", false
	}
	return f.skip(lowercase + digits + "_-.*"), true
}

// member reads an item or an inner list, which is fieldOther.
func (f *fieldReader) member(item *fieldItem) (ok bool) {
	if !f.next('(') {
		item.value, ok = f.value()
		return ok && f.parameters(item)
	}
	for {
		if f.skip(" "); f.next(')') {
			return f.parameters(item)
		}
		var inner fieldItem
		inner.value, ok = f.value()
		if !ok || !f.parameters(&inner) || f.rest == "" || f.rest[0] != ' ' && f.rest[0] != ')' {
			return false
		}
	}
}

// parameters reads what follows a value. Of a parameter that is there twice, the last counts.
func (f *fieldReader) parameters(item *fieldItem) bool {
	for f.next(';') {
		f.skip(" ")
		key, ok := f.key()
		var value fieldValue
		if ok && f.next('=') {
			value, ok = f.value()
		}
		switch {
		case !ok:
			return false
		case key == "r":
			item.r = value
		case key == "t":
			item.t = value
		}
	}
	return true
}

func (f *fieldReader) value() (v fieldValue, ok bool) {
	if f.rest == "" {
		return v, false
	}
	switch c := f.rest[:1]; {
	case c == `"`:
		return f.quoted()
	case strings.Contains("-"+digits, c):
		return f.number()
	case strings.Contains("*"+letters, c):
		return fieldValue{kind: fieldName, text: f.skip(tokenRunes)}, true
	case f.next('?'): // a Boolean
		return v, f.next('0') || f.next('1')
	case f.next('@'): // a Date
		n, ok := f.number()
		return v, ok && n.kind == fieldWhole
	case f.next(':'): // a Byte Sequence
		encoded := f.skip(letters + digits + "+/=")
		_, err := base64.StdEncoding.DecodeString(encoded)
		return v, err == nil && f.next(':')
	case f.next('%') && f.next('"'): // a Display String, which is not decoded
		text, rest, ended := strings.Cut(f.rest, `"`)
		f.rest = rest
		_, ok = quote(text) // only printable ASCII can be
		return v, ok && ended
	}
	return v, false
}

// number reads an Integer or a Decimal.
func (f *fieldReader) number() (v fieldValue, ok bool) {
	negative := f.next('-')
	whole := f.skip(digits)
	if f.next('.') {
		fraction := f.skip(digits)
		return v, len(whole) >= 1 && len(whole) <= 12 && len(fraction) >= 1 && len(fraction) <= 3
	}
	n, err := strconv.ParseInt(whole, 10, 64)
	if negative {
		n = -n
	}
	return fieldValue{kind: fieldWhole, n: n}, err == nil && len(whole) <= 15
}

// quoted reads a String.
func (f *fieldReader) quoted() (v fieldValue, ok bool) {
	if !f.next('"') {
		return v, false
	}
	var text []byte
	for i := 0; i < len(f.rest); i++ {
		c := f.rest[i]
		switch {
		case c == '"':
			f.rest = f.rest[i+1:]
			return fieldValue{kind: fieldName, text: string(text)}, true
		case c == '\\':
			if i++; i == len(f.rest) || f.rest[i] != '"' && f.rest[i] != '\\' {
				return v, false
			}
			c = f.rest[i]
		case c < ' ' || c > '~':
			return v, false
		}
		text = append(text, c)
	}
	return v, false
}
