package traffic

import (
	"bytes"
	"strings"

	"github.com/slidegate/slidegate/cmd/slidegate/internal/replay/routing"
	"github.com/slidegate/slidegate/internal/fields"
	"github.com/slidegate/slidegate/rule"
)

// field is a field of a request in a log, under the name that keys, costs and filters use.
type field uint8

const (
	fieldAddress field = iota
	fieldUser
	fieldMethod
	fieldPath
	fieldQuery
	fieldHost
	fieldStatus
	fieldBytes // the bytes of the response
	fieldKey
	fieldCost
	fieldCount // the number of fields
)

var fieldNames = [fieldCount]string{"address", "user", "method", "path", "query", "host", "status", "bytes", "key", "cost"}

// fieldSet is a set of fields.
type fieldSet uint16

func setOf(members ...field) fieldSet {
	var set fieldSet
	for _, f := range members {
		set |= 1 << f
	}
	return set
}

func (s fieldSet) has(f field) bool { return s>>f&1 != 0 }

// names returns the names of the members.
func (s fieldSet) names() []string {
	var names []string
	for f := range fieldCount {
		if s.has(f) {
			names = append(names, fieldNames[f])
		}
	}
	return names
}

// wants holds the fields that the key, the cost and the filter need from each request.
type wants struct {
	fields fieldSet
	extras []fields.Field // headers and paths
}

// entry is one parsed line of a log. Its bytes are valid until the next line.
type entry struct {
	at   rule.Micros
	time []byte // as a JSON value
	// values are the requested fields, followed by the headers and paths in the order of wants.extras; nil if the line
	// does not have them.
	values [][]byte
	failed int // the offset in an invalid line of a text format at which it is invalid
}

// parser parses the lines of one format.
type parser interface {
	// parse parses line into e. If the line is invalid, it returns the reason, which names the field; otherwise "".
	parse(line []byte, e *entry) (why string)
}

// isComment reports whether line is a comment, which may describe the lines that follow it.
func isComment(p parser, line []byte) bool {
	text, ok := p.(*textParser)
	if !ok || !text.hasFields || line[0] != '#' {
		return false
	}
	text.comment(line)
	return true
}

func newEntry(w wants) *entry {
	return &entry{values: make([][]byte, int(fieldCount)+len(w.extras))}
}

// request returns the request that patterns are matched against.
func (e *entry) request() routing.Request {
	return routing.Request{Method: e.values[fieldMethod], Host: e.values[fieldHost], Path: e.values[fieldPath]}
}

// setTime sets the time, which must be in the range of the rule.
func (e *entry) setTime(at rule.Micros) (why string) {
	e.at = at
	if at <= 0 || at > rule.MaxNow {
		return "time: must be between 1970 and 2245"
	}
	return ""
}

// setTarget splits the target of a request into path and query.
func (e *entry) setTarget(target []byte) {
	path, query, found := bytes.Cut(target, []byte{'?'})
	e.values[fieldPath] = path
	if found {
		e.values[fieldQuery] = query
	}
}

// joinNames returns "a, b and c".
func joinNames(names []string) string {
	if len(names) < 2 {
		return strings.Join(names, "")
	}
	return strings.Join(names[:len(names)-1], ", ") + " and " + names[len(names)-1]
}
