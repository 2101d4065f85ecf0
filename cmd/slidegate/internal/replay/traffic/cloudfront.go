package traffic

import (
	"bytes"
	"net/textproto"
	"strings"
)

// cloudfrontParser parses the standard log of Amazon CloudFront: columns separated by tabs, after a line that names them,
//
//	#Fields: date time x-edge-location sc-bytes c-ip cs-method cs(Host) cs-uri-stem sc-status cs(Referer) cs(User-Agent) ...
//
// which may occur again later, for example in concatenated files. A log without such a line has the default columns.
type cloudfrontParser struct {
	wants   wants
	clock   clock
	time    []byte
	scratch scratch
	day     int // the columns of the date and time; -1 if there are none
	hour    int
	stamp   int // the column of a timestamp; -1 if there is none
	columns []cloudfrontColumn
	values  [][]byte // the columns of the line, up to the last one needed
}

// cloudfrontColumn is a column to extract.
type cloudfrontColumn struct {
	from    int
	into    int
	decoded bool // percent-decode it, as for headers
}

var cloudfrontFields = setOf(fieldAddress, fieldMethod, fieldPath, fieldQuery, fieldHost, fieldStatus, fieldBytes)

// cloudfrontHeaders are the headers that such a log may have.
var cloudfrontHeaders = []string{"Referer", "User-Agent", "Cookie", "X-Forwarded-For"}

// cloudfrontNames are the columns of the fields. The host in the request is preferred to the host of the
// distribution.
var cloudfrontNames = [fieldCount][]string{
	fieldAddress: {"c-ip"},
	fieldMethod:  {"cs-method"},
	fieldPath:    {"cs-uri-stem"},
	fieldQuery:   {"cs-uri-query"},
	fieldHost:    {"x-host-header", "cs(Host)"},
	fieldStatus:  {"sc-status"},
	fieldBytes:   {"sc-bytes"},
}

// defaultColumns are the columns of a log without a #Fields line.
const defaultColumns = "#Fields: date time x-edge-location sc-bytes c-ip cs-method cs(Host) cs-uri-stem sc-status cs(Referer) " +
	"cs(User-Agent) cs-uri-query cs(Cookie) x-edge-result-type x-edge-request-id x-host-header cs-protocol cs-bytes time-taken " +
	"x-forwarded-for"

func newCloudFrontParser(w wants) parser {
	p := &cloudfrontParser{wants: w}
	p.comment([]byte(defaultColumns))
	return p
}

// comment reads the names of the columns from a #Fields line.
func (p *cloudfrontParser) comment(line []byte) {
	names, ok := bytes.CutPrefix(line, []byte("#Fields:"))
	if !ok {
		return
	}
	indexes := map[string]int{}
	for i, name := range strings.Fields(string(names)) {
		indexes[strings.ToLower(name)] = i
	}
	p.columns = p.columns[:0]
	p.day, p.hour, p.stamp = -1, -1, -1
	p.setColumn(&p.day, indexes, "date")
	p.setColumn(&p.hour, indexes, "time")
	p.setColumn(&p.stamp, indexes, "timestamp(ms)", "timestamp")
	for f := range fieldCount {
		if p.wants.fields.has(f) {
			p.addColumn(int(f), false, indexes, cloudfrontNames[f]...)
		}
	}
	for i, extra := range p.wants.extras {
		name := textproto.CanonicalMIMEHeaderKey(extra.Name)
		p.addColumn(int(fieldCount)+i, true, indexes, "cs("+name+")", name)
	}
	last := max(p.day, p.hour, p.stamp)
	for _, c := range p.columns {
		last = max(last, c.from)
	}
	p.values = make([][]byte, last+1)
}

// setColumn sets column to the first of the names that exists.
func (p *cloudfrontParser) setColumn(column *int, indexes map[string]int, names ...string) {
	for _, name := range names {
		if i, ok := indexes[strings.ToLower(name)]; ok {
			*column = i
			return
		}
	}
}

func (p *cloudfrontParser) addColumn(into int, decoded bool, indexes map[string]int, names ...string) {
	from := -1
	if p.setColumn(&from, indexes, names...); from >= 0 {
		p.columns = append(p.columns, cloudfrontColumn{from: from, into: into, decoded: decoded})
	}
}

func (p *cloudfrontParser) parse(line []byte, e *entry) (why string) {
	p.scratch = p.scratch[:0]
	rest := line
	for i := range p.values {
		end := bytes.IndexByte(rest, '\t')
		if end < 0 {
			if i+1 < len(p.values) {
				return "columns: fewer than #Fields names"
			}
			end = len(rest)
		}
		p.values[i] = rest[:end]
		rest = rest[min(end+1, len(rest)):]
	}
	for i := range e.values {
		e.values[i] = nil
	}
	for _, c := range p.columns {
		value := present(p.values[c.from])
		if c.decoded {
			value = p.scratch.decodeHex(value, '%')
		}
		e.values[c.into] = value
	}
	return p.parseTime(e)
}

func (p *cloudfrontParser) parseTime(e *entry) (why string) {
	if p.day < 0 || p.hour < 0 {
		return p.parseStamp(e)
	}
	p.time = append(append(p.time[:0], '"'), p.values[p.day]...)
	p.time = append(append(p.time, 'T'), p.values[p.hour]...)
	p.time = append(p.time, 'Z', '"')
	at, ok := p.clock.rfc3339(p.time[1 : len(p.time)-1])
	if !ok {
		return "time: want a date and time such as 2019-12-04 and 21:02:31"
	}
	e.time = p.time
	return e.setTime(at)
}

// parseStamp parses a time in seconds or milliseconds since 1970.
func (p *cloudfrontParser) parseStamp(e *entry) (why string) {
	if p.stamp < 0 {
		return "time: #Fields names neither date and time nor timestamp"
	}
	at, ok := p.clock.parse(p.values[p.stamp])
	if !ok {
		return "time: want seconds or milliseconds since 1970"
	}
	p.time = append(append(append(p.time[:0], '"'), p.values[p.stamp]...), '"')
	e.time = p.time
	return e.setTime(at)
}
