package traffic

import (
	"github.com/slidegate/slidegate/cmd/slidegate/internal/replay/jsonscan"
	"github.com/slidegate/slidegate/rule"
)

// linesParser parses JSON lines. Nearly all lines have only t, key and cost, without escapes: it parses these itself,
// and leaves all others, valid or not, to the general JSON parser.
type linesParser struct {
	*jsonParser
	needKey bool // the key is built from "key"
	plain   bool // nothing else is wanted, and the names are the default ones
}

func newLinesParser(general *jsonParser, w wants) *linesParser {
	own, given := &linesTable, general.table
	return &linesParser{
		jsonParser: general, needKey: w.fields.has(fieldKey),
		plain: len(w.extras) == 0 && w.fields&^setOf(fieldKey, fieldCost) == 0 && own.time[0] == given.time[0] &&
			own.names[fieldKey][0] == given.names[fieldKey][0] && own.names[fieldCost][0] == given.names[fieldCost][0],
	}
}

func (p *linesParser) parse(line []byte, e *entry) (why string) {
	if p.plain && p.quick(line, e) {
		return ""
	}
	if why := p.jsonParser.parse(line, e); why != "" {
		return why
	}
	if p.needKey && e.values[fieldKey] == nil {
		return "key: " + p.table.names[fieldKey][0] + " is missing"
	}
	return ""
}

// quick parses a line of the usual form, with the members in any order and spaces where JSON allows them. It returns
// false if the line has another form or is invalid. The last of duplicate members counts, as in the JSON parser.
func (p *linesParser) quick(line []byte, e *entry) bool {
	q := quickLine{line: line}
	if !q.object() || q.time == nil || q.key == nil && p.needKey || q.at <= 0 || q.at > rule.MaxNow {
		return false
	}
	e.at, e.time, e.values[fieldKey], e.values[fieldCost] = q.at, q.time, q.key, q.cost
	return true
}

// quickLine is the state of quick: what it has parsed of a line, up to i.
type quickLine struct {
	line []byte
	i    int
	at   rule.Micros
	time []byte
	key  []byte
	cost []byte
}

func (q *quickLine) object() bool {
	if !q.take('{') {
		return false
	}
	for {
		q.space()
		if !q.member() {
			return false
		}
		q.space()
		if q.take(',') {
			continue
		}
		if !q.take('}') {
			return false
		}
		q.space()
		return q.i == len(q.line)
	}
}

// member parses a name and its value.
func (q *quickLine) member() bool {
	rest := q.line[q.i:]
	switch {
	case len(rest) > 3 && string(rest[:3]) == `"t"`:
		q.i += 3
		return q.colon() && q.readTime()
	case len(rest) > 5 && string(rest[:5]) == `"key"`:
		q.i += 5
		return q.colon() && q.readKey()
	case len(rest) > 6 && string(rest[:6]) == `"cost"`:
		q.i += 6
		if !q.colon() {
			return false
		}
		start := q.i
		_, ok := q.digits()
		q.cost = q.line[start:q.i]
		return ok
	}
	return false
}

func (q *quickLine) readTime() bool {
	start := q.i
	millis, ok := q.digits()
	q.at = rule.Micros(millis) * 1000
	if !ok {
		return false
	}
	if q.take('.') {
		unit, first := rule.Micros(100), q.i
		for ; q.i < len(q.line) && q.line[q.i]-'0' <= 9; q.i++ {
			q.at += rule.Micros(q.line[q.i]-'0') * unit
			unit /= 10
		}
		if q.i == first {
			return false
		}
	}
	q.time = q.line[start:q.i]
	return true
}

func (q *quickLine) readKey() bool {
	if !q.take('"') {
		return false
	}
	end := jsonscan.EndOfPlain(q.line, q.i)
	q.key = q.line[q.i:end]
	q.i = end
	return q.take('"')
}

// digits parses a whole number of up to 15 digits, which is never too large for a cost, or for a time in milliseconds to
// be converted to microseconds.
func (q *quickLine) digits() (n int64, ok bool) {
	first := q.i
	for ; q.i < len(q.line) && q.line[q.i]-'0' <= 9; q.i++ {
		n = n*10 + int64(q.line[q.i]-'0')
		if q.i-first == 15 {
			return 0, false
		}
	}
	ok = q.i == first+1 || q.i > first && q.line[first] != '0'
	return n, ok
}

func (q *quickLine) colon() bool {
	q.space()
	ok := q.take(':')
	q.space()
	return ok
}

func (q *quickLine) take(c byte) bool {
	if q.i < len(q.line) && q.line[q.i] == c {
		q.i++
		return true
	}
	return false
}

func (q *quickLine) space() {
	for q.i < len(q.line) && (q.line[q.i] == ' ' || q.line[q.i] == '\t') {
		q.i++
	}
}
