package jsonapi

import (
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"unicode/utf16"
	"unicode/utf8"

	"github.com/slidegate/slidegate/internal/errtext"
)

// scanner reads the subset of JSON that the API accepts: known fields, each once, with strings of valid Unicode and
// integers. It is written by hand because encoding/json is lax where a limiter must not be: encoding/json accepts Key
// for key, uses the last of two duplicates, ignores null, and replaces all invalid bytes with the same character, which
// would merge different keys. Decoding with it would also take longer than deciding. Everything that scanner accepts is
// valid for encoding/json too, with the same values.
//
// Every method reads from at, and returns false once there is a problem.
type scanner struct {
	text    string
	at      int
	name    string // name of the field whose value is read
	problem *problem

	within string // prefix of field names in problems: "reservation."
	list   string // the list whose entry is read, "" if none
	index  int
}

// path returns the full path of a field.
func (s *scanner) path(field string) string {
	switch {
	case s.list == "":
		return s.within + field
	case field == "":
		return s.within + s.list + "[" + strconv.Itoa(s.index) + "]"
	}
	return s.within + s.list + "[" + strconv.Itoa(s.index) + "]." + field
}

func (s *scanner) space() {
	for s.at < len(s.text) {
		switch s.text[s.at] {
		case ' ', '\t', '\n', '\r':
			s.at++
		default:
			return
		}
	}
}

// next skips space and consumes c if it comes next.
func (s *scanner) next(c byte) bool {
	if s.at < len(s.text) && s.text[s.at] == c { // most JSON is written by programs, without space
		s.at++
		return true
	}
	s.space()
	if s.at < len(s.text) && s.text[s.at] == c {
		s.at++
		return true
	}
	return false
}

// addProblem records a problem with the text, and returns false.
func (s *scanner) addProblem(at int, field, format string, values ...any) bool {
	if s.problem == nil {
		line := 1 + strings.Count(s.text[:at], "\n")
		s.problem = &problem{
			Status: http.StatusBadRequest, Detail: fmt.Sprintf(format, values...), Field: s.path(field), Offset: &at, Line: line,
		}
	}
	return false
}

// expected records the problem that something else was expected here.
func (s *scanner) expected(field, what string) bool {
	s.space()
	return s.addProblem(s.at, field, "must be %s, not %s", what, s.describe())
}

// describe describes the text here without showing it, since it may be a key.
func (s *scanner) describe() string {
	if s.at >= len(s.text) {
		return "the end of the body"
	}
	switch c := s.text[s.at]; {
	case c == '"':
		return "a string"
	case c == '{':
		return "an object"
	case c == '[':
		return "an array"
	case c == '-' || '0' <= c && c <= '9':
		return "a number"
	case strings.HasPrefix(s.text[s.at:], "null"):
		return "null"
	case strings.HasPrefix(s.text[s.at:], "true"), strings.HasPrefix(s.text[s.at:], "false"):
		return "a boolean"
	}
	return "invalid JSON"
}

// object reads an object with these fields. The result seen has a bit for each field that was present, in their order.
func (c *call) object(fields []field) (seen uint, ok bool) {
	if !c.next('{') {
		return 0, c.expected(c.name, "an object")
	}
	if c.next('}') {
		return 0, true
	}
	for {
		c.space()
		from := c.at
		if c.at >= len(c.text) || c.text[c.at] != '"' {
			return 0, c.expected("", "the name of a field in double quotes")
		}
		c.name = ""
		name, ok := c.stringValue()
		if !ok {
			return 0, false
		}
		index := fieldOf(name, fields)
		if index < 0 {
			return 0, c.unknown(from, name, namesOf(fields))
		}
		if seen&(1<<index) != 0 {
			return 0, c.addProblem(from, name, "duplicate field; keep one")
		}
		seen |= 1 << index
		name = fields[index].name
		if c.name = name; !c.next(':') {
			return 0, c.expected(name, "followed by a colon")
		}
		c.space()
		if !fields[index].read(c) {
			return 0, false
		}
		if c.next(',') {
			continue
		}
		if c.next('}') {
			return seen, true
		}
		return 0, c.expected(name, "followed by a comma or a closing brace")
	}
}

// each reads an array, which must not have more entries than max.
func (c *call) each(field string, max int, tooMany string, read func() bool) bool {
	from := c.at
	if !c.next('[') {
		return c.expected(field, "an array")
	}
	if c.next(']') {
		return true
	}
	c.list = field
	for c.index = 0; c.index < max; c.index++ {
		c.space()
		c.name = ""
		if !read() {
			return false
		}
		if c.next(',') {
			continue
		}
		c.list = ""
		if c.next(']') {
			return true
		}
		return c.expected(field, "followed by a comma or a closing bracket")
	}
	c.list = ""
	return c.addProblem(from, field, tooMany, max)
}

// fieldOf returns the index of a field, or -1.
func fieldOf(name string, fields []field) int {
	for i := range fields {
		if fields[i].name == name {
			return i
		}
	}
	return -1
}

func namesOf(fields []field) []string {
	names := make([]string, len(fields))
	for i := range fields {
		names[i] = fields[i].name
	}
	return names
}

// unknown records an unknown field as a problem, and suggests the nearest known one.
func (s *scanner) unknown(at int, name string, names []string) bool {
	if len(name) > 60 {
		name = strings.ToValidUTF8(name[:60], "") + "..."
	}
	near, ok := errtext.Nearest(name, names)
	if ok {
		s.addProblem(at, name, "is not a field of this request; did you mean %q? (want one of %s)", near, strings.Join(names, ", "))
		s.problem.Meant = near
		return false
	}
	return s.addProblem(at, name, "is not a field of this request (want one of %s)", strings.Join(names, ", "))
}

// atEnd requires the end of the text.
func (s *scanner) atEnd() bool {
	s.space()
	if s.at < len(s.text) {
		return s.addProblem(s.at, "", "unexpected data after the request; send one JSON object")
	}
	return true
}

// boolean reads true or false.
func (s *scanner) boolean() (value, ok bool) {
	switch rest := s.text[s.at:]; {
	case strings.HasPrefix(rest, "true"):
		s.at += len("true")
		return true, true
	case strings.HasPrefix(rest, "false"):
		s.at += len("false")
		return false, true
	}
	return false, s.expected(s.name, "true or false")
}

// safeDigits is the number of digits that always fit into an int64.
const safeDigits = 18

// integer reads an integer within bounds.
func (s *scanner) integer(min, max int64) (n int64, ok bool) {
	from, end := s.at, s.at
	for end < len(s.text) && end-from < safeDigits && s.text[end]-'0' <= 9 {
		n = n*10 + int64(s.text[end]-'0')
		end++
	}
	if end > from && (n != 0 && s.text[from] != '0' || end == from+1) && n >= min && n <= max && !s.numeralAt(end) {
		s.at = end // the usual case; the code below would return the same
		return n, true
	}
	for s.numeralAt(end) {
		end++
	}
	text := s.text[from:end]
	if text == "" {
		return 0, s.expected(s.name, "a number")
	}
	digits := strings.TrimPrefix(text, "-")
	if digits == "" || len(digits) > 1 && digits[0] == '0' || strings.Trim(digits, "0123456789") != "" {
		return 0, s.addProblem(from, s.name, "must be a whole number in digits only: 1000, not 1e3 or 1000.0")
	}
	var err error
	if n, err = strconv.ParseInt(text, 10, 64); err != nil || n < min || n > max || n == 0 && text[0] == '-' {
		return 0, s.addProblem(from, s.name, "must be a whole number from %d to %d", min, max)
	}
	s.at = end
	return n, true
}

// numeralAt reports whether a character of a number is at that offset.
func (s *scanner) numeralAt(at int) bool {
	if at >= len(s.text) {
		return false
	}
	c := s.text[at]
	return '0' <= c && c <= '9' || c == '-' || c == '+' || c == '.' || c == 'e' || c == 'E'
}

// plain marks the bytes that stand for themselves in a string.
var plain = func() (all [256]bool) {
	for c := ' '; c < utf8.RuneSelf; c++ {
		all[c] = c != '"' && c != '\\'
	}
	return all
}()

// stringValue reads a string, without a copy where possible.
func (s *scanner) stringValue() (string, bool) {
	if s.at >= len(s.text) || s.text[s.at] != '"' {
		return "", s.expected(s.name, "a string")
	}
	from := s.at + 1
	for i := from; i < len(s.text); i++ {
		if c := s.text[i]; !plain[c] {
			if c == '"' {
				s.at = i + 1
				return s.text[from:i], true
			}
			return s.escaped(from, i)
		}
	}
	return "", s.addProblem(len(s.text), s.name, "unterminated string")
}

// escaped reads the rest of a string with escapes or non-ASCII characters, starting at at.
func (s *scanner) escaped(from, at int) (string, bool) {
	out := []byte(s.text[from:at])
	for at < len(s.text) {
		switch c := s.text[at]; {
		case c == '"':
			s.at = at + 1
			return string(out), true
		case c == '\\':
			r, size := unescape(s.text[at:])
			if size == 0 {
				return "", s.addProblem(at, s.name, "contains an invalid escape or half of a surrogate pair; send a key that is not text in key_base64")
			}
			out = utf8.AppendRune(out, r)
			at += size
		case c < ' ':
			return "", s.addProblem(at, s.name, "contains a control character; write it as \\u%04x", c)
		case c < utf8.RuneSelf:
			out = append(out, c)
			at++
		default:
			_, size := utf8.DecodeRuneInString(s.text[at:])
			if size == 1 {
				return "", s.addProblem(at, s.name, "is not valid UTF-8; send a key that is not text in key_base64")
			}
			out = append(out, s.text[at:at+size]...)
			at += size
		}
	}
	return "", s.addProblem(len(s.text), s.name, "unterminated string")
}

// unescape reads the escape that text begins with. Its size is 0 if it is invalid.
func unescape(text string) (r rune, size int) {
	if len(text) < 2 {
		return 0, 0
	}
	if i := strings.IndexByte(`"\/bfnrt`, text[1]); i >= 0 {
		return rune("\"\\/\b\f\n\r\t"[i]), 2
	}
	r, ok := hex4(text)
	switch {
	case !ok:
		return 0, 0
	case !utf16.IsSurrogate(r):
		return r, 6
	}
	low, ok := hex4(text[6:])
	if r = utf16.DecodeRune(r, low); !ok || r == utf8.RuneError {
		return 0, 0
	}
	return r, 12
}

// hex4 reads \u and four digits.
func hex4(text string) (rune, bool) {
	if len(text) < 6 || text[0] != '\\' || text[1] != 'u' {
		return 0, false
	}
	n, err := strconv.ParseUint(text[2:6], 16, 16) // accepts no sign and no underscore
	return rune(n), err == nil
}
