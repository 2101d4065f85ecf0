package traffic

import "bytes"

// haproxyParser parses the log that HAProxy writes with option httplog, which is also its default log-format for HTTP. A
// prefix added by a syslog server is ignored:
//
//	Feb  6 12:14:14 localhost haproxy[14389]: 10.0.1.2:33317 [06/Feb/2009:12:14:14.655] http-in static/srv1
//	10/0/30/69/109 200 2750 - - ---- 1/1/1/1/0 0/0 {1wt.eu} {} "GET /index.html HTTP/1.1"
//
// The time is local time without a zone; it is read as UTC. Captured headers have no names, so they are ignored.
type haproxyParser struct {
	wants   wants
	clock   clock
	time    []byte
	scratch scratch
}

var haproxyFields = setOf(fieldAddress, fieldMethod, fieldPath, fieldQuery, fieldStatus, fieldBytes)

func newHAProxyParser(w wants) parser { return &haproxyParser{wants: w} }

func (p *haproxyParser) parse(line []byte, e *entry) (why string) {
	p.scratch = p.scratch[:0]
	rest, why := p.parseClient(line, e)
	if why != "" {
		return why
	}
	_, rest = word(rest) // the frontend
	server, rest := word(rest)
	timers, rest := word(rest)
	if bytes.IndexByte(server, '/') < 0 || bytes.Count(timers, []byte{'/'}) != 4 {
		return "request: not a line of option httplog: five timers are missing"
	}
	code, rest := word(rest)
	if string(code) == "-1" {
		code = nil // no response was sent
	} else if !isCount(code, 3) {
		return "status: no number after the timers"
	}
	size, rest := word(rest)
	size = bytes.TrimPrefix(size, []byte{'+'}) // logged before the response had ended
	if !isCount(size, 19) {
		return "bytes: no number after the status"
	}
	e.values[fieldStatus], e.values[fieldBytes] = code, size
	return p.parseRequest(rest, e)
}

// parseClient finds the time, and the address before it, after any prefix.
func (p *haproxyParser) parseClient(line []byte, e *entry) (rest []byte, why string) {
	begin := timeInBrackets(line)
	if begin < 0 {
		return nil, "time: no [06/Feb/2009:12:14:14.655] after the address"
	}
	client := line[bytes.LastIndexByte(line[:begin-1], ' ')+1 : begin-1]
	host, ok := withoutPort(client)
	if !ok {
		return nil, "address: no address with a port before the time"
	}
	end := begin + bytes.IndexByte(line[begin:], ']')
	at, ok := p.clock.clfLocal(line[begin+1 : end])
	if !ok || end+1 >= len(line) || line[end+1] != ' ' {
		return nil, "time: want a time such as 06/Feb/2009:12:14:14.655"
	}
	e.values[fieldAddress] = host
	p.time = append(append(append(p.time[:0], '"'), line[begin+1:end]...), '"')
	e.time = p.time
	return line[end+2:], e.setTime(at)
}

// timeInBrackets returns the index of the opening bracket of a time in brackets that follows a space, or -1.
func timeInBrackets(line []byte) int {
	const minLength = len("[06/Feb/2009:12:14:14]")
	for from := 1; ; {
		i := bytes.IndexByte(line[min(from, len(line)):], '[')
		if i < 0 {
			return -1
		}
		i += from
		if rest := line[i:]; len(rest) >= minLength && rest[3] == '/' && rest[7] == '/' && line[i-1] == ' ' && bytes.IndexByte(rest, ']') > 0 {
			return i
		}
		from = i + 1
	}
}

// withoutPort returns the host of host:port.
func withoutPort(client []byte) (host []byte, ok bool) {
	i := bytes.LastIndexByte(client, ':')
	if i < 1 || !isCount(client[i+1:], 10) || client[i+1] == '-' {
		return nil, false
	}
	return client[:i], true
}

// parseRequest finds the request, the last field of the line and the only quoted one. A syslog server may have escaped
// the quotes with backslashes.
func (p *haproxyParser) parseRequest(rest []byte, e *entry) (why string) {
	begin, end := bytes.IndexByte(rest, '"'), bytes.LastIndexByte(rest, '"')
	if begin < 0 || begin == end {
		return "request: no quoted request at the end"
	}
	if p.wants.fields&setOf(fieldMethod, fieldPath, fieldQuery) == 0 {
		return ""
	}
	request := bytes.TrimSuffix(rest[begin+1:end], []byte{'\\'})
	verb, target := requestLine(request)
	if verb == nil {
		verb, target = truncatedRequest(request)
	}
	e.values[fieldMethod] = verb
	_, target = splitTarget(target)
	e.setTarget(p.scratch.decodeHex(target, '#'), verb != nil)
	return ""
}

// truncatedRequest splits a request without a protocol: HAProxy truncates requests to about a thousand bytes.
func truncatedRequest(request []byte) (verb, target []byte) {
	verb, target = word(request)
	if !isMethod(verb) || len(target) == 0 || target[0] != '/' && !bytes.Contains(target, []byte("://")) {
		return nil, nil
	}
	return verb, target
}

// splitTarget splits the host from a target that is an absolute URL, as load balancers log it.
func splitTarget(target []byte) (host, path []byte) {
	i := bytes.Index(target, []byte("://"))
	if i < 0 || target[0] == '/' {
		return nil, target
	}
	host = target[i+3:]
	end := bytes.IndexAny(host, "/?")
	if end < 0 {
		return present(host), []byte{'/'}
	}
	return present(host[:end]), host[end:]
}
