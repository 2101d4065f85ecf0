package traffic

import (
	"bytes"
	"net/textproto"
	"slices"
	"strings"
)

// textParser parses the lines of a text format.
type textParser struct {
	columns   []wantedColumn
	anywhere  bool // the line may have a prefix
	wants     wants
	whole     bool // reject lines that are cut off, although the format allows them
	hasFields bool // a #Fields line describes the columns of the lines that follow it
	clock     clock
	date      []byte // the date of the line, if it is a column
	time      []byte
	scratch   scratch
	stale     bool // the entry may have values that the next line does not set
	matched   int  // how many columns of an invalid line were valid
}

// wantedColumn is a column with what is wanted of it.
type wantedColumn struct {
	column
	into   []int // the indexes of its value in the values of an entry
	parsed bool  // its value is wanted, or must be valid
}

func newTextParser(c *columns, w wants, hasFields bool) *textParser {
	p := &textParser{wants: w, hasFields: hasFields}
	p.setColumns(c)
	return p
}

func (p *textParser) setColumns(c *columns) {
	p.columns, p.anywhere, p.stale = make([]wantedColumn, len(c.list)), c.anywhere, true
	for i := range c.list {
		one := &p.columns[i]
		one.column = c.list[i]
		if len(one.fields) == 1 && p.wants.fields.has(one.fields[0]) {
			one.into = append(one.into, int(one.fields[0]))
		}
		for j, extra := range p.wants.extras {
			if one.header != "" && textproto.CanonicalMIMEHeaderKey(extra.Name) == one.header {
				one.into = append(one.into, int(fieldCount)+j)
			}
		}
		switch one.kind {
		case columnIgnored:
		case columnText, columnHeader:
			one.parsed = len(one.into) > 0
		case columnTarget, columnRequest, columnURL:
			one.parsed = p.wants.fields&setOf(one.fields...) != 0
		default:
			one.parsed = true
		}
	}
}

// parse parses a line. If it may have a prefix, the columns may begin after any of its spaces, and the reason why a line
// is invalid is that of the beginning from which most of it could be read.
func (p *textParser) parse(line []byte, e *entry) (why string) {
	why = p.match(line, 0, e)
	if !p.anywhere || why == "" {
		return why
	}
	most, failed := p.matched, e.failed
	for from := 0; ; {
		space := bytes.IndexByte(line[from:], ' ')
		if space < 0 {
			e.failed = failed
			return why
		}
		from += space + 1
		other := p.match(line, from, e)
		if other == "" {
			return ""
		}
		if p.matched > most {
			why, most, failed = other, p.matched, e.failed
		}
	}
}

// match parses the columns of a line, which begin at an offset.
func (p *textParser) match(line []byte, at int, e *entry) (why string) {
	p.scratch, p.date = p.scratch[:0], nil
	if p.stale {
		clear(e.values)
	}
	p.stale = true
	e.values[fieldMethod], e.values[fieldHost], e.values[fieldPath], e.values[fieldQuery] = nil, nil, nil, nil
	rest, last := line[at:], 0 // last is the length of the previous column
	for i, columns := 0, p.columns; i < len(columns); i++ {
		c := &columns[i]
		if !beginsWith(rest, c.before) {
			if c.optional && !p.whole && bytes.HasPrefix(c.before, rest) {
				return ""
			}
			p.matched, e.failed = i, len(line)-len(rest)
			return c.why
		}
		rest = rest[len(c.before):]
		n, cut := bytes.IndexByte(rest, c.end), false
		if c.irregular {
			n = c.length(rest, n, last)
		}
		if n <= 0 {
			cut = n < 0 && len(c.after) > 0
			if c.optional && !p.whole && (cut || len(rest) == 0) {
				return "" // what is left of it may have lost its end
			}
			if cut && !p.mayEndAfter(i) || n == 0 && c.end == ' ' {
				p.matched, e.failed = i, len(line)-len(rest)
				return c.why
			}
			if n < 0 {
				n = len(rest)
			}
		}
		if c.parsed {
			if why := p.set(c, rest[:n], cut, e); why != "" {
				p.matched, e.failed = i, len(line)-len(rest)
				return why
			}
		}
		rest, last = rest[n:], n
	}
	p.stale = false // the next line sets all values again; only the parts of a request may be missing
	return ""
}

// beginsWith is bytes.HasPrefix, faster for the few bytes that separate columns.
func beginsWith(text, prefix []byte) bool {
	if len(text) < len(prefix) {
		return false
	}
	for i, c := range prefix {
		if text[i] != c {
			return false
		}
	}
	return true
}

// mayEndAfter reports whether the line may end after a column without the text that follows it.
func (p *textParser) mayEndAfter(i int) bool {
	next := i + 1
	return !p.whole && !p.columns[i].quoted && next < len(p.columns) && p.columns[next].optional
}

// length returns the length of an irregular column at the start of text, or -1 if the line ends before the column does. The
// argument n is the index of its end byte, and last the length of the previous column.
func (c *column) length(text []byte, n, last int) int {
	switch {
	case c.end == 0:
		return -1
	case c.quoted && n > 0 && text[n-1] == '\\' && c.escape == '\\':
		return closingQuote(text)
	case c.spaces && n >= 0 && (!c.afterIgnored || last == 1) && !beginsWith(text[n:], c.after):
		// In a log with a host before the address, the name of the user would contain the address, and all clients of a host
		// would be one. So the ignored column before it must look as if it has no value.
		return bytes.Index(text, c.after)
	}
	return n
}

// set parses the value of a column. If the line ends after it, the value must be known to be complete.
func (p *textParser) set(c *wantedColumn, value []byte, ends bool, e *entry) (why string) {
	switch c.kind {
	case columnTime:
		return p.setTime(&c.column, value, e)
	case columnDate:
		p.date = value
		return ""
	case columnTarget:
		e.setTarget(p.unescape(&c.column, present(value)))
		return ""
	case columnRequest, columnURL:
		p.setRequest(&c.column, value, e)
		return ""
	case columnStatus:
		if string(value) == "-1" {
			value = nil // HAProxy: no response was sent
		} else if !isCount(value, 3) || ends && len(value) < 3 {
			return c.why
		}
		value = present(value)
	case columnBytes: // "-" means that nothing was sent
		value = bytes.TrimPrefix(value, []byte{'+'}) // HAProxy: logged before the response had ended
		if !isCount(value, 19) {
			return c.why
		}
	case columnPort:
		if value = withoutPort(value); value == nil {
			return c.why
		}
	default:
		value = present(value)
		if c.escape != 0 {
			value = p.unescape(&c.column, value)
		}
	}
	for _, into := range c.into {
		e.values[into] = value
	}
	return ""
}

func (p *textParser) unescape(c *column, value []byte) []byte {
	switch c.escape {
	case 0:
		return value
	case '\\':
		return p.scratch.unescape(value)
	}
	return p.scratch.decodeHex(value, c.escape)
}

// setTime sets the time of the request. An optional time replaces the one before it, if it can be read.
func (p *textParser) setTime(c *column, value []byte, e *entry) (why string) {
	if p.date != nil {
		start := len(p.scratch)
		p.scratch = append(append(p.scratch, p.date...), 'T')
		p.scratch = append(append(p.scratch, value...), 'Z')
		value = p.scratch.from(start)
	}
	at, ok := p.clock.clf(value)
	if !ok && len(value) >= len("100000000") { // a shorter number is not a time since 1973
		at, ok = p.clock.parse(value)
	}
	if !ok && c.optional {
		return ""
	}
	if !ok {
		return c.why
	}
	p.time = append(append(append(p.time[:0], '"'), value...), '"')
	e.time = p.time
	return e.setTime(at)
}

// setRequest splits "METHOD TARGET PROTOCOL". Anything else, such as the first bytes of TLS on a plain port, is still a
// request, without a method and a path.
func (p *textParser) setRequest(c *column, request []byte, e *entry) {
	if c.escape == '#' {
		request = bytes.TrimSuffix(request, []byte{'\\'}) // a syslog server may have escaped the quotes
	}
	method, target := requestLine(request)
	if method == nil {
		return
	}
	host, target := splitTarget(target)
	e.values[fieldMethod] = method
	if c.kind == columnURL {
		e.values[fieldHost] = host
	}
	e.setTarget(p.unescape(c, target))
}

// requestLine splits "METHOD TARGET PROTOCOL", or a request that was truncated before its protocol. It returns nil for
// anything else.
func requestLine(request []byte) (method, target []byte) {
	i := bytes.IndexByte(request, ' ')
	if i < 0 || !isMethod(request[:i]) {
		return nil, nil
	}
	method, target = request[:i], request[i+1:]
	last := bytes.LastIndexByte(target, ' ')
	switch {
	case last > 0 && bytes.HasPrefix(target[last+1:], []byte("HTTP/")):
		return method, target[:last]
	case last < 0 && len(target) > 0 && (target[0] == '/' || bytes.Contains(target, []byte("://"))):
		return method, target
	}
	return nil, nil
}

// splitTarget splits the host from a target that is an absolute URL, as load balancers log it.
func splitTarget(target []byte) (host, path []byte) {
	if target[0] == '/' {
		return nil, target
	}
	i := bytes.Index(target, []byte("://"))
	if i < 0 {
		return nil, target
	}
	host = target[i+3:]
	end := bytes.IndexAny(host, "/?")
	if end < 0 {
		return present(host), []byte{'/'}
	}
	return present(host[:end]), host[end:]
}

// closingQuote returns the index of the first quote in text that an even number of backslashes precedes, or -1.
func closingQuote(text []byte) int {
	for i := 0; i < len(text); i++ {
		switch text[i] {
		case '\\':
			i++
		case '"':
			return i
		}
	}
	return -1
}

// withoutPort returns the host of host:port, or nil.
func withoutPort(client []byte) []byte {
	i := bytes.LastIndexByte(client, ':')
	if i < 1 || !isCount(client[i+1:], 10) || client[i+1] == '-' {
		return nil
	}
	return client[:i]
}

// present returns nil for the placeholders that servers write for a missing value.
func present(text []byte) []byte {
	if len(text) == 0 || len(text) == 1 && text[0] == '-' || string(text) == `""` {
		return nil
	}
	return text
}

// isCount reports whether text is a number of at most maxDigits digits, or "-".
func isCount(text []byte, maxDigits int) bool {
	if len(text) == 1 && text[0] == '-' {
		return true
	}
	for _, c := range text {
		if c-'0' > 9 {
			return false
		}
	}
	return len(text) > 0 && len(text) <= maxDigits
}

// isMethod reports whether text could be a method: letters, hyphens as in M-SEARCH, and underscores.
func isMethod(text []byte) bool {
	for _, c := range text {
		if (c|0x20 < 'a' || c|0x20 > 'z') && c != '-' && c != '_' {
			return false
		}
	}
	return len(text) > 0
}

// fieldsColumns are the columns of the names in a #Fields line, as CloudFront writes them. Of several for the same
// column, the first is used: the host in the request is preferred to the host of the distribution.
var fieldsColumns = []struct{ name, column string }{
	{"date", "date"}, {"time", "time"}, {"timestamp", "time"}, {"timestamp(ms)", "time"},
	{"c-ip", "address"}, {"cs-method", "method"}, {"cs-uri-stem", "path"}, {"cs-uri-query", "query"},
	{"x-host-header", "host"}, {"cs(host)", "host"}, {"sc-status", "status"}, {"sc-bytes", "bytes"},
	{"x-forwarded-for", "header:X-Forwarded-For%"},
}

// comment reads a #Fields line, which names the columns of the lines that follow it, separated by tabs. It may occur
// again later, for example in concatenated files.
func (p *textParser) comment(line []byte) {
	names, ok := bytes.CutPrefix(line, []byte("#Fields:"))
	if !ok {
		return
	}
	described := describeFields(strings.Fields(strings.ToLower(string(names))))
	if c, err := parseColumns(described); err == nil {
		p.setColumns(c)
	} else {
		p.setColumns(&columns{list: []column{{name: "time", why: "time: #Fields names neither date and time nor timestamp", before: []byte{0}}}})
	}
}

// describeFields returns the description of columns with names as in a #Fields line.
func describeFields(names []string) string {
	list := make([]string, len(names))
	for i, name := range names {
		list[i] = "{-}"
		if header, ok := strings.CutPrefix(name, "cs("); ok && name != "cs(host)" {
			list[i] = "{header:" + strings.TrimSuffix(header, ")") + "%}"
		}
	}
	used := map[string]bool{}
	for _, known := range fieldsColumns {
		if i := slices.Index(names, known.name); i >= 0 && !used[known.column] {
			list[i], used[known.column] = "{"+known.column+"}", true
		}
	}
	for len(list) > 0 && list[len(list)-1] == "{-}" {
		list = list[:len(list)-1]
	}
	return strings.Join(list, `\t`)
}
