package traffic

import (
	"fmt"
	"net/textproto"
	"slices"
	"strings"

	"github.com/slidegate/slidegate/internal/errtext"
)

// A text format is described by a line in which {names} stand for its columns, and other text for itself:
//
//	{address} {-} {user} [{time}] "{request}" {status} {bytes}
//
// A column ends at the first byte of the text that follows its name; in quotes it may contain escaped ones. The last
// column ends where it would if the text before it followed it too, and the rest of the line is ignored.
//
//	{-}        anything, ignored
//	{...}      only at the beginning: any words, or none, such as the prefix of a syslog server
//	{?}        what follows may be missing, and so may the rest of a line that is cut off
//	\t         a tab
//	{name%}    bytes are written as %20; {name#}: as #20

// columnKind determines how the text of a column is parsed.
type columnKind uint8

const (
	columnIgnored columnKind = iota
	columnText               // the value of a field
	columnHeader
	columnStatus
	columnBytes
	columnTime    // in any of the notations that clock.parse reads
	columnDate    // the date of a time that is only a time of day, in UTC
	columnPort    // an address with a port
	columnTarget  // a path with an optional query
	columnRequest // METHOD TARGET PROTOCOL
	columnURL     // the same, with a URL that contains the host as the target
)

// columnType is a type of column.
type columnType struct {
	name   string
	kind   columnKind
	fields []field // those that the column sets
	what   string  // in errors about a line that does not have it
}

// columnTypes are the types of columns, except header:NAME.
var columnTypes = []columnType{
	{"time", columnTime, nil, "time such as 2006-01-02T15:04:05Z or 02/Jan/2006:15:04:05 -0700"},
	{"date", columnDate, nil, "date such as 2006-01-02"},
	{"address", columnText, []field{fieldAddress}, "address"},
	{"address:port", columnPort, []field{fieldAddress}, "address with a port"},
	{"user", columnText, []field{fieldUser}, "user"},
	{"request", columnRequest, []field{fieldMethod, fieldPath, fieldQuery}, "request"},
	{"request:url", columnURL, []field{fieldMethod, fieldHost, fieldPath, fieldQuery}, "request"},
	{"method", columnText, []field{fieldMethod}, "method"},
	{"path", columnTarget, []field{fieldPath, fieldQuery}, "path"},
	{"query", columnText, []field{fieldQuery}, "query"},
	{"host", columnText, []field{fieldHost}, "host"},
	{"status", columnStatus, []field{fieldStatus}, "number"},
	{"bytes", columnBytes, []field{fieldBytes}, "number"},
	{"key", columnText, []field{fieldKey}, "key"},
	{"cost", columnText, []field{fieldCost}, "cost"},
	{"-", columnIgnored, nil, "text"},
}

// column is one column of a text format.
type column struct {
	name         string
	kind         columnKind
	fields       []field
	header       string // in canonical form
	escape       byte   // '%' or '#', or '\\' for a column in quotes
	quoted       bool
	optional     bool
	spaces       bool   // it may contain spaces though a space ends it: what follows the space decides
	afterIgnored bool   // the previous column is ignored
	irregular    bool   // its end is not simply where the byte end is
	before       []byte // the text before it
	after        []byte // the text after it
	end          byte   // where it ends; 0 means at the end of the line
	why          string // the reason why a line without it is invalid
}

// columns describes a text format.
type columns struct {
	list     []column
	anywhere bool // the line may have a prefix
}

// parseColumns returns the columns that text describes.
func parseColumns(text string) (*columns, error) {
	c := &columns{}
	before, optional, last := "", false, ""
	for rest := text; ; {
		literal, tail, more := strings.Cut(rest, "{")
		before += strings.ReplaceAll(literal, `\t`, "\t")
		position := len(text) - len(tail)
		if !more {
			break
		}
		name, after, closed := strings.Cut(tail, "}")
		if !closed {
			return nil, fmt.Errorf("column %d, byte %d: the brace is not closed", len(c.list)+1, position)
		}
		rest = after
		switch {
		case name == "...":
			if position != 1 {
				return nil, fmt.Errorf("byte %d: {...} must be at the beginning; use {-} to ignore a column", position)
			}
			c.anywhere = true
			continue
		case name == "?":
			optional = true
			continue
		case before == "" && len(c.list) > 0:
			return nil, fmt.Errorf("column %d, byte %d: {%s} follows %s without text between them, so nothing tells where one ends", len(c.list)+1, position, name, last)
		}
		one, err := newColumn(name, last)
		if err != nil {
			return nil, fmt.Errorf("column %d, byte %d: %w", len(c.list)+1, position, err)
		}
		one.before, one.optional = []byte(before), optional
		c.list = append(c.list, one)
		before, last = "", "{"+name+"}"
	}
	return c, c.finish(before)
}

func newColumn(text, last string) (c column, err error) {
	c.name = strings.TrimRight(text, "%#")
	if n := len(c.name); n < len(text) {
		c.escape = text[n]
	}
	what := c.name
	if header, ok := strings.CutPrefix(c.name, "header:"); ok && header != "" {
		c.kind, c.header = columnHeader, textproto.CanonicalMIMEHeaderKey(header)
	} else {
		i := slices.IndexFunc(columnTypes, func(known columnType) bool { return known.name == c.name })
		if i < 0 {
			return c, unknownColumn(c.name)
		}
		c.kind, c.fields, what = columnTypes[i].kind, columnTypes[i].fields, columnTypes[i].what
	}
	c.why = c.name + ": no " + what
	if last == "" {
		c.why += " at the beginning"
	} else {
		c.why += " after " + last
	}
	return c, nil
}

func unknownColumn(name string) error {
	var names []string
	for _, known := range columnTypes {
		names = append(names, known.name)
	}
	hint := ""
	if near, ok := errtext.Nearest(name, names); ok {
		hint = fmt.Sprintf("; did you mean {%s}?", near)
	}
	return fmt.Errorf("unknown column {%s}%s (want %s or header:NAME)", name, hint, strings.Join(names, ", "))
}

// finish determines where each column ends, given the text after the last one, and checks the whole.
func (c *columns) finish(tail string) error {
	hasTime := false
	for i := range c.list {
		one := &c.list[i]
		one.after = []byte(tail)
		if i+1 < len(c.list) {
			one.after = c.list[i+1].before
		}
		one.quoted = len(one.before) > 0 && one.before[len(one.before)-1] == '"' && len(one.after) > 0 && one.after[0] == '"'
		switch {
		case len(one.after) > 0:
			one.end = one.after[0]
		case len(one.before) > 0:
			one.end = one.before[len(one.before)-1]
		}
		one.afterIgnored = i > 0 && c.list[i-1].kind == columnIgnored
		one.spaces = one.name == "user" && len(one.after) > 1
		if one.quoted && one.escape == 0 {
			one.escape = '\\'
		}
		one.irregular = one.quoted || one.spaces || one.end == 0
		hasTime = hasTime || one.kind == columnTime && !one.optional
	}
	if !hasTime {
		return fmt.Errorf("there is no {time}, or it is after {?}")
	}
	return nil
}

// has returns the fields that the columns set.
func (c *columns) has() (set fieldSet) {
	for i := range c.list {
		set |= setOf(c.list[i].fields...)
	}
	return set
}

// headers returns the headers that the columns have.
func (c *columns) headers() (names []string) {
	for i := range c.list {
		if c.list[i].header != "" {
			names = append(names, c.list[i].header)
		}
	}
	return names
}
