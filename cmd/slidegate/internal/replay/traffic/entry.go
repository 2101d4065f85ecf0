package traffic

import (
	"strings"

	"github.com/slidegate/slidegate/cmd/slidegate/internal/replay/facing"
	"github.com/slidegate/slidegate/config"
	"github.com/slidegate/slidegate/rule"
)

// field is what a request may have in a log, by the name that keys, costs and filters call it.
type field uint8

const (
	fieldAddress field = iota
	fieldUser
	fieldMethod
	fieldPath
	fieldQuery
	fieldHost
	fieldStatus
	fieldBytes // the bytes of the answer
	fieldKey
	fieldCost
	fieldCount // how many there are
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

// names lists the members in words.
func (s fieldSet) names() []string {
	var names []string
	for f := range fieldCount {
		if s.has(f) {
			names = append(names, fieldNames[f])
		}
	}
	return names
}

// entry is one line of a log, taken apart. Its bytes are valid until the next line.
type entry struct {
	at   rule.Micros
	time []byte // as a JSON value
	cost int64  // what the line itself says it costs, if it is one of ours
	// values are the fields that are wanted, and after them the headers and paths in the order they were asked for; nil
	// if the line does not have them.
	values [][]byte
}

// wants is what key, cost and filter need to know of each request.
type wants struct {
	fields fieldSet
	extras []config.Field // headers and paths
}

// parser reads the lines of one format.
type parser interface {
	// parse takes line apart. If it cannot, it returns why, in words that name the field; otherwise "".
	parse(line []byte, e *entry) (why string)
}

// commenter is an optional interface for parsers of formats in which a line that begins with # is no request, but may say
// something about those that follow.
type commenter interface {
	comment(line []byte)
}

// isComment reports whether line is a comment, which the parser has then taken.
func isComment(p parser, line []byte) bool {
	c, ok := p.(commenter)
	if !ok || line[0] != '#' {
		return false
	}
	c.comment(line)
	return true
}

func newEntry(w wants) *entry {
	return &entry{values: make([][]byte, int(fieldCount)+len(w.extras))}
}

// request returns what patterns are held against.
func (e *entry) request() facing.Request {
	return facing.Request{Method: e.values[fieldMethod], Host: e.values[fieldHost], Path: e.values[fieldPath]}
}

// setTime keeps at if the rule can work with it.
func (e *entry) setTime(at rule.Micros) (why string) {
	e.at = at
	if at <= 0 || at > rule.MaxNow {
		return "time: it is not between 1970 and 2245"
	}
	return ""
}

// setTarget keeps what a request asks for: the path and, apart from it, the query.
func (e *entry) setTarget(target []byte, found bool) {
	e.values[fieldPath], e.values[fieldQuery] = nil, nil
	if !found {
		return
	}
	e.values[fieldPath] = target
	for i, c := range target {
		if c == '?' {
			e.values[fieldPath], e.values[fieldQuery] = target[:i], target[i+1:]
			return
		}
	}
}

// listed is "a, b and c".
func listed(names []string) string {
	if len(names) < 2 {
		return strings.Join(names, "")
	}
	return strings.Join(names[:len(names)-1], ", ") + " and " + names[len(names)-1]
}
