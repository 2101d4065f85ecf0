package httplimit

import (
	"encoding/base64"
	"strconv"
	"strings"
)

// fieldMember is a member of a List or of a Dictionary (RFC 9651). Values are as they were written, and empty if absent; the
// value of an inner list is empty too.
type fieldMember struct {
	key   string // of a Dictionary
	value string
	r, t  string // the parameters of RateLimit
	a, w  string // what the text after draft 11 calls them
}

// readMembers calls each with the members of a List, or of a Dictionary if keyed. It reports whether the field is well-formed;
// if it is not, the caller must ignore all of it. The text of a Display String is not decoded.
func readMembers(lines []string, keyed bool, each func(fieldMember)) bool {
	f := &fieldReader{strings.TrimLeft(strings.Join(lines, ", "), " ")}
	for f.rest != "" {
		var m fieldMember
		if keyed {
			if m.key = f.key(); m.key == "" {
				return false
			}
		}
		if (!keyed || f.next('=')) && !f.itemOrList(&m) || !f.parameters(&m) {
			return false
		}
		each(m)
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

// parseName returns the text of a String. The drafts require a String for a name; some servers send a Token.
func parseName(value string) (name string, ok bool) {
	switch {
	case value == "" || !strings.Contains(`"*`+letters, value[:1]):
		return "", false
	case value[0] == '"':
		value = strings.NewReplacer(`\\`, `\`, `\"`, `"`).Replace(value[1 : len(value)-1])
	}
	return value, true
}

// parseInteger returns an Integer.
func parseInteger(value string) (n int64, ok bool) {
	n, err := strconv.ParseInt(value, 10, 64)
	return n, err == nil
}

// fieldReader reads a field from its beginning.
type fieldReader struct{ rest string }

// next consumes c if it comes next, and reports whether it did.
func (f *fieldReader) next(c byte) bool {
	if f.rest == "" || f.rest[0] != c {
		return false
	}
	f.rest = f.rest[1:]
	return true
}

// skip consumes leading characters of the set, and returns them.
func (f *fieldReader) skip(characters string) string {
	before := f.rest
	f.rest = strings.TrimLeft(before, characters)
	return before[:len(before)-len(f.rest)]
}

const (
	digits    = "0123456789"
	lowercase = "abcdefghijklmnopqrstuvwxyz"
	letters   = lowercase + "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
)

// key reads the name of a member or of a parameter; it is empty if there is none.
func (f *fieldReader) key() string {
	if f.rest == "" || !strings.Contains("*"+lowercase, f.rest[:1]) {
		return ""
	}
	return f.skip(lowercase + digits + "_-.*")
}

// itemOrList reads the value of m, or an inner list, and reports whether it is well-formed.
func (f *fieldReader) itemOrList(m *fieldMember) (ok bool) {
	if !f.next('(') {
		m.value, ok = f.value()
		return ok
	}
	for {
		if f.skip(" "); f.next(')') {
			return true
		}
		_, ok := f.value()
		if !ok || !f.parameters(new(fieldMember)) || f.rest == "" || f.rest[0] != ' ' && f.rest[0] != ')' {
			return false
		}
	}
}

// parameters reads the parameters after a value. The last of duplicate parameters counts.
func (f *fieldReader) parameters(m *fieldMember) bool {
	for f.next(';') {
		f.skip(" ")
		key, value, ok := f.key(), "", true
		if key != "" && f.next('=') {
			value, ok = f.value()
		}
		switch {
		case key == "" || !ok:
			return false
		case key == "r":
			m.r = value
		case key == "t":
			m.t = value
		case key == "a":
			m.a = value
		case key == "w":
			m.w = value
		}
	}
	return true
}

// value consumes a value, and returns it as written and whether it is well-formed.
func (f *fieldReader) value() (value string, ok bool) {
	before := f.rest
	switch {
	case f.next('"'):
		ok = f.quoted()
	case f.next('?'): // a Boolean
		ok = f.next('0') || f.next('1')
	case f.next('@'): // a Date
		ok = f.number(false)
	case f.next(':'): // a Byte Sequence
		_, err := base64.StdEncoding.DecodeString(f.skip(letters + digits + "+/="))
		ok = err == nil && f.next(':')
	case strings.HasPrefix(before, `%"`): // a Display String
		f.rest = before[2:]
		f.skip(digits + letters + " !#$%&'()*+,-./:;<=>?@[\\]^_`{|}~")
		ok = f.next('"')
	case f.skip("*"+letters) != "": // a Token
		f.skip(letters + digits + "!#$%&'*+-.^_`|~:/")
		ok = true
	default:
		ok = f.number(true)
	}
	return before[:len(before)-len(f.rest)], ok
}

// number consumes an Integer, or also a Decimal if decimal is set, and reports whether it is well-formed.
func (f *fieldReader) number(decimal bool) bool {
	f.next('-')
	whole := len(f.skip(digits))
	if !decimal || !f.next('.') {
		return whole >= 1 && whole <= 15
	}
	fraction := len(f.skip(digits))
	return whole >= 1 && whole <= 12 && fraction >= 1 && fraction <= 3
}

// quoted consumes the rest of a String, and reports whether it is terminated and contains only valid characters.
func (f *fieldReader) quoted() bool {
	for i := 0; i < len(f.rest); i++ {
		switch c := f.rest[i]; {
		case c == '"':
			f.rest = f.rest[i+1:]
			return true
		case c == '\\':
			if i++; i == len(f.rest) || f.rest[i] != '"' && f.rest[i] != '\\' {
				return false
			}
		case c < ' ' || c > '~':
			return false
		}
	}
	return false
}
