package clientip

import (
	"net/netip"
	"regexp"
	"strings"
)

// modelFind is Find, slow and obvious: it reads the whole header by the grammar, and compares prefixes one by one.
func modelFind(opts Options, peer string, lines []string) (netip.Addr, bool) {
	addr, ok := parseSlowly(peer)
	believed := opts.Hops > 0 || modelTrusts(opts, addr)
	if !ok {
		believed = opts.TrustUnix && (peer == "" || strings.HasPrefix(peer, "@") || strings.HasPrefix(peer, "/"))
	}
	if opts.Header == "" || !believed {
		return addr, ok
	}
	for i, hop := range modelHops(opts.Header, lines) {
		client, named := parseSlowly(hop.node)
		switch {
		case hop.broken || i == 100:
			return addr, ok
		case i+1 < opts.Hops:
		case !named || client == netip.IPv4Unspecified() || client == netip.IPv6Unspecified():
			return addr, ok
		case opts.Hops > 0 || !modelTrusts(opts, client):
			return client, true
		}
	}
	return addr, ok
}

func modelTrusts(opts Options, addr netip.Addr) bool {
	for _, prefix := range opts.Trusted {
		mapped := netip.PrefixFrom(prefix.Addr().Unmap(), prefix.Bits()-96)
		if prefix.Contains(addr) || prefix.Addr().Is4In6() && mapped.Contains(addr) {
			return true
		}
	}
	return false
}

// modelHop is what a header contains about one hop. A broken hop, and those to the left of it, are unknown.
type modelHop struct {
	node   string
	broken bool
}

// modelHops returns what a header contains about each hop, from the right.
func modelHops(header string, lines []string) (hops []modelHop) {
	if header != "X-Forwarded-For" && header != "Forwarded" {
		if len(lines) == 0 {
			return nil
		}
		return []modelHop{{node: strings.Trim(lines[len(lines)-1], " \t")}}
	}
	for i := len(lines) - 1; i >= 0; i-- {
		for line, more := lines[i], true; more; {
			comma := strings.LastIndex(line, ",")
			if header == "Forwarded" {
				comma = modelComma(line)
			}
			if comma == -2 || len(line)-max(comma, 0) > 1024 {
				return append(hops, modelHop{broken: true})
			}
			hop := modelHop{node: strings.Trim(line[comma+1:], " \t")}
			if header == "Forwarded" {
				hop = modelElement(line[comma+1:])
			}
			hops = append(hops, hop)
			if more = comma >= 0; more {
				line = line[:comma]
			}
		}
	}
	return hops
}

// The grammar of RFC 7239, and what is accepted beyond it.
const (
	tokenGrammar  = "[!#$%&'*+.^_`|~0-9A-Za-z-]+"
	quotedGrammar = `"(?:[^"\\]|\\(?s:.))*"`
	valueGrammar  = "(?:" + quotedGrammar + `|[^",;]*)`
	pairGrammar   = "[ \t]*(?:(" + tokenGrammar + ")=(" + valueGrammar + "))?[ \t]*"
)

var (
	elementGrammar = regexp.MustCompile("^" + pairGrammar + "(?:;" + pairGrammar + ")*$")
	eachPair       = regexp.MustCompile(";" + pairGrammar) // in an element that is preceded by a semicolon
	escaped        = regexp.MustCompile(`\\((?s:.))`)
)

// modelComma returns the index of the comma before the last element of a line: the comma that is followed by one whole
// element. It is -1 if the line is one element, and -2 if there is no such comma.
func modelComma(line string) int {
	for i := -1; i < len(line); i++ {
		if (i < 0 || line[i] == ',') && elementGrammar.MatchString(latin1(line[i+1:])) {
			return i
		}
	}
	return -2
}

// latin1 turns every byte into a character, because regexp works on characters.
func latin1(text string) string {
	runes := make([]rune, len(text))
	for i := range len(text) {
		runes[i] = rune(text[i])
	}
	return string(runes)
}

// modelElement returns what an element contains: the value of its only for=.
func modelElement(element string) modelHop {
	var hop modelHop
	found := 0
	for _, pair := range eachPair.FindAllStringSubmatch(latin1(";"+element), -1) {
		if !strings.EqualFold(pair[1], "for") {
			continue
		}
		found++
		hop.node = strings.TrimRight(pair[2], " \t")
		if strings.HasPrefix(hop.node, `"`) {
			hop.node = escaped.ReplaceAllString(hop.node[1:len(hop.node)-1], "$1")
		}
	}
	hop.broken = found > 1
	return hop
}
