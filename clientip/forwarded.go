package clientip

import (
	"net/netip"
	"strings"
)

// cutElement is the cutEntry function of Forwarded (RFC 7239). Its elements are separated by commas; they consist of pairs
// separated by semicolons, whose values may be quoted. The pair that counts is for=, which an element must have exactly
// once.
//
// It reads from the right, so that the client cannot influence it: from the left, a quote that a client leaves open would
// swallow the elements that the proxies have appended. This works because of what precedes a quote. An opening quote
// follows "=", and a quote inside a value follows an odd number of backslashes, so the nearest quote to the left of a
// closing quote that is not inside the value opens it. The elements of proxies are thus found whole, whatever is to the
// left of them.
//
// It accepts unquoted values that should be quoted (for=[2001:db8::1]:80, host=example.com:80), and spaces around the
// semicolons, because some proxies write them. Names (for=_hidden, for=unknown) and ports that are names are not addresses.
func cutElement(line string) (addr netip.Addr, rest string, more, ok bool) {
	tail := line[max(0, len(line)-maxEntry):]
	named := false
	for text := tail; ; {
		p, ok := cutPair(text)
		if !ok {
			return netip.Addr{}, "", false, false
		}
		if strings.EqualFold(p.name, "for") {
			if named {
				return netip.Addr{}, "", false, false
			}
			named, addr = true, p.address()
		}
		switch {
		case p.before == ',':
			return addr, line[:len(line)-len(tail)+len(p.rest)], true, true
		case p.before == 0:
			return addr, "", false, len(tail) == len(line)
		}
		text = p.rest
	}
}

// pair is one name=value of an element. Empty pairs, which have no name, are allowed.
type pair struct {
	name, value string
	quoted      bool // whether value was quoted; its escapes are not yet removed
	before      byte // the comma or semicolon before the pair; 0 for the line's first pair
	rest        string
}

// cutPair cuts the last pair off text.
func cutPair(text string) (p pair, ok bool) {
	text = trimRight(text)
	if text != "" && text[len(text)-1] == '"' {
		open := openingQuote(text)
		if open < 1 || text[open-1] != '=' {
			return pair{}, false
		}
		p.quoted = true
		p.value = text[open+1 : len(text)-1]
		text = text[:open-1]
	}
	start := len(text)
	for start > 0 && text[start-1] != ',' && text[start-1] != ';' {
		start--
		if text[start] == '"' {
			return pair{}, false
		}
	}
	p.name = trimLeft(text[start:])
	if start > 0 {
		p.before, p.rest = text[start-1], text[:start-1]
	}
	if p.quoted {
		return p, isToken(p.name)
	}
	if p.name == "" {
		return p, true
	}
	p.name, p.value, ok = strings.Cut(p.name, "=")
	return p, ok && isToken(p.name)
}

// openingQuote returns the index of the quote that opens the quoted value at the end of text, or -1.
func openingQuote(text string) int {
	end := len(text) - 1
	if isEscaped(text, end) {
		return -1
	}
	for i := end - 1; i >= 0; i-- {
		if text[i] == '"' && !isEscaped(text, i) {
			return i
		}
	}
	return -1
}

// isEscaped reports whether an odd number of backslashes precedes text[i].
func isEscaped(text string, i int) bool {
	first := i
	for first > 0 && text[first-1] == '\\' {
		first--
	}
	return (i-first)%2 == 1
}

// address returns the address in the pair's value, or the zero Addr.
func (p pair) address() netip.Addr {
	if !p.quoted || strings.IndexByte(p.value, '\\') < 0 {
		addr, _ := Parse(p.value)
		return addr
	}
	plain := make([]byte, 0, 64)
	for i := 0; i < len(p.value); i++ {
		if p.value[i] == '\\' {
			i++ // there is one more byte: the closing quote is not escaped
		}
		plain = append(plain, p.value[i])
	}
	addr, _ := Parse(plain)
	return addr
}
