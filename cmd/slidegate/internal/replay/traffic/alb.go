package traffic

import (
	"bytes"

	"github.com/slidegate/slidegate/rule"
)

// albParser parses the access logs of AWS Application Load Balancers, and of Classic Load Balancers, which lack the type
// at the beginning and most fields after the user agent:
//
//	http 2018-07-02T22:23:00.186641Z app/my-loadbalancer/50dc6c495c0c9188 192.168.131.39:2817 10.0.0.1:80 0.000 0.001 0.000
//	200 200 34 366 "GET http://www.example.com:80/ HTTP/1.1" "curl/7.46.0" - - arn:aws:... "Root=1-58337262-..." "-" "-" 0
//	2018-07-02T22:22:48.364000Z "forward" "-" "-"
//
// The first time is the time of the response. Requests are counted at the time in a later field, when the request was
// received.
type albParser struct {
	wants   wants
	clock   clock
	time    []byte
	scratch scratch
	agent   []int // the indexes of the user agent in the values
}

var albFields = setOf(fieldAddress, fieldMethod, fieldPath, fieldQuery, fieldHost, fieldStatus, fieldBytes)

// albHeaders are the headers in these logs.
var albHeaders = []string{"User-Agent"}

func newALBParser(w wants) parser {
	p := &albParser{wants: w}
	for i := range w.extras {
		p.agent = append(p.agent, int(fieldCount)+i)
	}
	return p
}

func (p *albParser) parse(line []byte, e *entry) (why string) {
	p.scratch = p.scratch[:0]
	first, rest := word(line)
	timeText := first
	if len(first) > 0 && first[0]-'0' > 9 {
		timeText, rest = word(rest)
	}
	at, ok := p.clock.rfc3339(timeText)
	if !ok {
		return "time: no time such as 2018-07-02T22:23:00.186641Z after the type"
	}
	_, rest = word(rest) // the load balancer
	client, rest := word(rest)
	host, ok := withoutPort(client)
	if !ok {
		return "address: no address with a port after the load balancer"
	}
	e.values[fieldAddress] = host
	rest = skipWords(rest, 4) // the target and three times
	if rest, why = p.parseResponse(rest, e); why != "" {
		return why
	}
	request, rest, ok := quoted(rest)
	if !ok {
		return "request: no quoted request after the bytes"
	}
	p.setRequest(request, e)
	agent, rest, ok := quoted(rest)
	if !ok {
		return "user agent: no quoted user agent after the request"
	}
	for _, i := range p.agent {
		e.values[i] = p.scratch.unescape(present(agent))
	}
	if receivedAt, text := p.received(rest); text != nil {
		at, timeText = receivedAt, text
	}
	p.time = append(append(append(p.time[:0], '"'), timeText...), '"')
	e.time = p.time
	return e.setTime(at)
}

// parseResponse parses the status that the client got, the status of the target, and the bytes received and sent.
func (p *albParser) parseResponse(rest []byte, e *entry) (after []byte, why string) {
	code, rest := word(rest)
	if !isCount(code, 3) {
		return nil, "status: no number after the times"
	}
	rest = skipWords(rest, 2)
	size, rest := word(rest)
	if !isCount(size, 19) {
		return nil, "bytes: no number after the status"
	}
	e.values[fieldStatus], e.values[fieldBytes] = present(code), size
	return rest, ""
}

// setRequest splits the request, whose target is an absolute URL. "- http://host:80- -" is not a request.
func (p *albParser) setRequest(request []byte, e *entry) {
	if p.wants.fields&setOf(fieldMethod, fieldPath, fieldQuery, fieldHost) == 0 {
		return
	}
	verb, target := requestLine(request)
	host, path := splitTarget(target)
	e.values[fieldMethod], e.values[fieldHost] = verb, host
	e.setTarget(p.scratch.unescape(path), verb != nil)
}

// received returns the time at which the request was received. It follows the cipher, protocol and target group, three
// quoted texts and the number of the rule. Older lines end before it, and text is then nil.
func (p *albParser) received(rest []byte) (at rule.Micros, text []byte) {
	rest = skipWords(rest, 3)
	for range 3 {
		var ok bool
		if _, rest, ok = quoted(rest); !ok {
			return 0, nil
		}
	}
	text, _ = word(skipWords(rest, 1))
	at, ok := p.clock.rfc3339(text)
	if !ok {
		return 0, nil
	}
	return at, text
}

// skipWords returns the text after the next n words.
func skipWords(text []byte, n int) []byte {
	for range n {
		i := bytes.IndexByte(text, ' ')
		if i < 0 {
			return nil
		}
		text = text[i+1:]
	}
	return text
}
