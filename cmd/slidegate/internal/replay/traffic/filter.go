package traffic

import (
	"bytes"
	"strconv"
	"strings"
)

// Filter selects requests by method, path and status. The zero value selects all requests. It is immutable and safe for
// concurrent use.
type Filter struct {
	methods, paths, statuses choices
}

// The names of the parts of a filter, for errors.
const (
	filterMethod = "Filter.Method"
	filterPath   = "Filter.Path"
	filterStatus = "Filter.Status"
)

var filterParts = []struct {
	field  field
	option string
}{{fieldMethod, filterMethod}, {fieldPath, filterPath}, {fieldStatus, filterStatus}}

// choices holds the patterns for one field: one of take must match, if there are any, and none of drop.
type choices struct {
	include, exclude []pattern
}

// pattern matches a text, or a range of statuses.
type pattern struct {
	text     []byte
	parts    [][]byte // for a path: the texts between the "*", each of which matches any sequence of characters
	from, to int      // for a status: the range
}

// ParseFilter returns a filter from lists of patterns; an empty list selects everything. A pattern that begins with "!"
// excludes what it matches. Methods are case-insensitive; in a path, which is compared without its query, "*" matches any
// sequence of characters; a status is 404, 2xx or 400-499.
func ParseFilter(methods, paths, statuses []string) (Filter, error) {
	var f Filter
	err := f.methods.parse(filterMethod, methods, parseMethod)
	if err == nil {
		err = f.paths.parse(filterPath, paths, parsePath)
	}
	if err == nil {
		err = f.statuses.parse(filterStatus, statuses, parseStatus)
	}
	return f, err
}

func (c *choices) parse(option string, items []string, parse func(string) (pattern, string)) error {
	for _, item := range items {
		text, excludes := strings.CutPrefix(strings.TrimSpace(item), "!")
		p, why := parse(text)
		if why != "" {
			return invalid(option, "%q: %s", item, why)
		}
		if excludes {
			c.exclude = append(c.exclude, p)
		} else {
			c.include = append(c.include, p)
		}
	}
	return nil
}

func parseMethod(text string) (pattern, string) {
	if !isMethod([]byte(text)) {
		return pattern{}, "want a method such as GET, or !OPTIONS to exclude it"
	}
	return pattern{text: []byte(text)}, ""
}

func parsePath(text string) (pattern, string) {
	if text == "" {
		return pattern{}, "want a path such as /login or /api/*, or !/health to exclude it"
	}
	if strings.Contains(text, "?") {
		return pattern{}, "a path is compared without its query; remove the ? and the rest, or use * for any characters"
	}
	return pattern{parts: bytes.Split([]byte(text), []byte("*"))}, ""
}

func parseStatus(text string) (pattern, string) {
	const help = "want a status such as 404, 2xx or 400-499, or !404 to exclude it"
	if class, ok := strings.CutSuffix(strings.ToLower(text), "xx"); ok {
		n, err := strconv.Atoi(class)
		if err != nil || n < 1 || n > 9 || len(class) != 1 {
			return pattern{}, help
		}
		return pattern{from: n * 100, to: n*100 + 99}, ""
	}
	first, last, isRange := strings.Cut(text, "-")
	if !isRange {
		last = first
	}
	from, err1 := strconv.ParseUint(first, 10, 16)
	to, err2 := strconv.ParseUint(last, 10, 16)
	if err1 != nil || err2 != nil || from > 999 || to > 999 || from > to {
		return pattern{}, help
	}
	return pattern{from: int(from), to: int(to)}, ""
}

// IsZero reports whether f selects all requests.
func (f Filter) IsZero() bool { return f.wants() == 0 }

// wants returns the fields that f needs.
func (f *Filter) wants() fieldSet {
	var set fieldSet
	if !f.methods.empty() {
		set |= setOf(fieldMethod)
	}
	if !f.paths.empty() {
		set |= setOf(fieldPath)
	}
	if !f.statuses.empty() {
		set |= setOf(fieldStatus)
	}
	return set
}

// selects reports whether f selects e. A missing field matches no pattern.
func (f *Filter) selects(e *entry) bool {
	return f.methods.selects(e.values[fieldMethod], matchMethod) &&
		f.paths.selects(e.values[fieldPath], matchPath) &&
		f.statuses.selects(e.values[fieldStatus], matchStatus)
}

func (c *choices) empty() bool { return len(c.include)+len(c.exclude) == 0 }

func (c *choices) selects(value []byte, match func(*pattern, []byte) bool) bool {
	included := len(c.include) == 0
	for i := range c.include {
		if value != nil && match(&c.include[i], value) {
			included = true
			break
		}
	}
	if !included {
		return false
	}
	for i := range c.exclude {
		if value != nil && match(&c.exclude[i], value) {
			return false
		}
	}
	return true
}

func matchMethod(p *pattern, value []byte) bool { return bytes.EqualFold(value, p.text) }

func matchStatus(p *pattern, value []byte) bool {
	n, whole, ok := decimal(value, 0)
	return ok && whole && n >= int64(p.from) && n <= int64(p.to)
}

// matchPath matches each part at its first occurrence: if the path matches at all, it matches that way.
func matchPath(p *pattern, value []byte) bool {
	first, rest := p.parts[0], p.parts[1:]
	if len(rest) == 0 {
		return bytes.Equal(value, first)
	}
	if !bytes.HasPrefix(value, first) {
		return false
	}
	value = value[len(first):]
	for len(rest) > 1 {
		i := bytes.Index(value, rest[0])
		if i < 0 {
			return false
		}
		value = value[i+len(rest[0]):]
		rest = rest[1:]
	}
	return bytes.HasSuffix(value, rest[0])
}
