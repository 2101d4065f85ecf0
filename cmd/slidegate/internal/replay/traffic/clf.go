package traffic

import (
	"bytes"
	"net/textproto"
)

// clfParser parses the Common Log Format and the combined one, which adds two headers:
//
//	127.0.0.1 - frank [10/Oct/2000:13:55:36 -0700] "GET /a?b=c HTTP/1.0" 200 2326 "http://example.com/" "Mozilla/4.08"
//
// The rest of the line is ignored: many servers and configurations add fields there. A line may be cut off after its
// status, by a full disk or by a syslog server with a maximum length. It is still a request, which lacks the fields that
// were cut off.
type clfParser struct {
	combined     bool
	requireWhole bool // reject lines that are cut off
	wants        wants
	clock        clock
	time         []byte
	scratch      scratch
	referer      []int // the indexes of the headers in the values
	agent        []int
}

// clfFields are the fields of both formats.
var clfFields = setOf(fieldAddress, fieldUser, fieldMethod, fieldPath, fieldQuery, fieldStatus, fieldBytes)

func newCommonParser(w wants) parser { return newCLFParser(false, w) }

func newCombinedParser(w wants) parser { return newCLFParser(true, w) }

func newCLFParser(combined bool, w wants) *clfParser {
	p := &clfParser{combined: combined, wants: w}
	for i, extra := range w.extras {
		if textproto.CanonicalMIMEHeaderKey(extra.Name) == "Referer" {
			p.referer = append(p.referer, int(fieldCount)+i)
		} else {
			p.agent = append(p.agent, int(fieldCount)+i)
		}
	}
	return p
}

// clfHeaders are the headers in a combined log.
var clfHeaders = []string{"Referer", "User-Agent"}

func (p *clfParser) parse(line []byte, e *entry) (why string) {
	p.scratch = p.scratch[:0]
	rest, why := p.parseClient(line, e)
	if why != "" {
		return why
	}
	if rest, why = p.parseTime(rest, e); why != "" {
		return why
	}
	request, rest, ok := quoted(rest)
	if !ok {
		return "request: no quoted request after the time"
	}
	p.setRequest(request, e)
	code, rest := word(rest)
	if !isCount(code, 3) || rest == nil && len(code) < 3 {
		return "status: no number after the request"
	}
	e.values[fieldStatus], e.values[fieldBytes] = present(code), nil
	size, rest := word(rest)
	if !isCount(size, 19) && (len(size) > 0 || rest != nil || p.requireWhole) {
		return "bytes: no number after the status"
	}
	if len(size) > 0 && (rest != nil || !p.combined) {
		e.values[fieldBytes] = size // if a combined line ends here, the number may have lost digits
	}
	if p.combined {
		return p.parseHeaders(rest, e)
	}
	return ""
}

// parseClient parses the address, the identity, which is not used, and the user name, which may contain spaces.
func (p *clfParser) parseClient(line []byte, e *entry) (rest []byte, why string) {
	who, rest := word(line)
	identity, rest := word(rest)
	if len(who) == 0 || len(identity) == 0 {
		return nil, "address: the line does not begin with address, identity and user"
	}
	name, rest := word(rest)
	if len(rest) > 0 && rest[0] != '[' {
		// In a log with a host before the address, the host would be read as the address, and all clients of a host
		// would be one.
		end := bytes.Index(rest, []byte(" ["))
		if len(identity) != 1 || end < 0 {
			return nil, "address: more than address, identity and user before the time"
		}
		name = name[:len(name)+1+end]
		rest = rest[end+1:]
	}
	e.values[fieldAddress] = present(who)
	e.values[fieldUser] = present(name)
	return rest, ""
}

func (p *clfParser) parseTime(rest []byte, e *entry) (after []byte, why string) {
	const size = len("[02/Jan/2006:15:04:05 -0700]")
	if len(rest) < size+1 || rest[0] != '[' || rest[size-1] != ']' || rest[size] != ' ' {
		return nil, "time: no [02/Jan/2006:15:04:05 -0700] after the user"
	}
	at, ok := p.clock.clf(rest[1 : size-1])
	if !ok {
		return nil, "time: want a time such as 02/Jan/2006:15:04:05 -0700"
	}
	p.time = append(append(append(p.time[:0], '"'), rest[1:size-1]...), '"')
	e.time = p.time
	return rest[size+1:], e.setTime(at)
}

// setRequest splits "METHOD TARGET PROTOCOL". Anything else, such as the first bytes of TLS on a plain port, is still a
// request, without a method and a path.
func (p *clfParser) setRequest(request []byte, e *entry) {
	if p.wants.fields&setOf(fieldMethod, fieldPath, fieldQuery) == 0 {
		return
	}
	verb, target := requestLine(request)
	e.values[fieldMethod] = verb
	e.setTarget(p.scratch.unescape(target), verb != nil)
}

// requestLine splits "METHOD TARGET PROTOCOL". It returns nil for anything else.
func requestLine(request []byte) (verb, target []byte) {
	verb, rest := word(request)
	last := bytes.LastIndexByte(rest, ' ')
	if last < 1 || !bytes.HasPrefix(rest[last+1:], []byte("HTTP/")) || !isMethod(verb) {
		return nil, nil
	}
	return verb, rest[:last]
}

func (p *clfParser) parseHeaders(rest []byte, e *entry) (why string) {
	referer, after, ok := quoted(rest)
	if !ok && (p.requireWhole || !isCut(rest)) {
		return "referer: no quoted referer after the bytes"
	}
	agent, _, ok := quoted(after)
	if !ok && (p.requireWhole || !isCut(after)) {
		return "user agent: no quoted user agent after the referer"
	}
	for _, i := range p.referer {
		e.values[i] = p.scratch.unescape(present(referer))
	}
	for _, i := range p.agent {
		e.values[i] = p.scratch.unescape(present(agent))
	}
	return ""
}

// isCut reports whether text, the rest of a line, is empty or begins with a quoted text that does not end.
func isCut(text []byte) bool { return len(text) == 0 || text[0] == '"' && closingQuote(text) < 0 }

// word splits text at the next space.
func word(text []byte) (first, rest []byte) {
	if i := bytes.IndexByte(text, ' '); i >= 0 {
		return text[:i], text[i+1:]
	}
	return text, nil
}

// quoted returns the quoted text at the start of text, without its quotes, and the rest after a space.
func quoted(text []byte) (inside, rest []byte, ok bool) {
	if len(text) == 0 || text[0] != '"' {
		return nil, nil, false
	}
	end := closingQuote(text)
	if end < 0 {
		return nil, nil, false
	}
	inside, rest = text[1:end], text[end+1:]
	if len(rest) == 0 {
		return inside, nil, true
	}
	return inside, rest[1:], rest[0] == ' '
}

// closingQuote returns the index of the quote that closes the quote at the start of text, or -1.
func closingQuote(text []byte) int {
	for end := 1; ; end++ {
		i := bytes.IndexByte(text[end:], '"')
		if i < 0 {
			return -1
		}
		if end += i; !isEscaped(text, end) {
			return end
		}
	}
}

// isEscaped reports whether an odd number of backslashes precedes i.
func isEscaped(text []byte, i int) bool {
	n := 0
	for i > n && text[i-1-n] == '\\' {
		n++
	}
	return n%2 == 1
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
