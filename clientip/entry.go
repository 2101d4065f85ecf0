package clientip

import (
	"net/netip"
	"strings"
)

// maxEntry is the length in bytes of the longest entry that is read. It bounds the work that a header can cause.
const maxEntry = 1024

// cutAddress is the cutEntry function of X-Forwarded-For, whose entries are addresses separated by commas.
func cutAddress(line string) (addr netip.Addr, rest string, more, ok bool) {
	tail := line[max(0, len(line)-maxEntry):]
	comma := strings.LastIndexByte(tail, ',')
	if comma < 0 && len(tail) < len(line) {
		return netip.Addr{}, "", false, false
	}
	addr, _ = Parse(trimSpace(tail[comma+1:]))
	if comma < 0 {
		return addr, "", false, true
	}
	return addr, line[:len(line)-len(tail)+comma], true, true
}

// trimSpace removes the spaces and tabs that may surround an entry. Other white space is not allowed in a header.
func trimSpace(text string) string { return trimLeft(trimRight(text)) }

func trimLeft(text string) string {
	for len(text) > 0 && isSpace(text[0]) {
		text = text[1:]
	}
	return text
}

func trimRight(text string) string {
	for len(text) > 0 && isSpace(text[len(text)-1]) {
		text = text[:len(text)-1]
	}
	return text
}

func isSpace(c byte) bool { return c == ' ' || c == '\t' }

// isToken reports whether text is a token of HTTP (RFC 9110, 5.6.2).
func isToken(text string) bool {
	for i := 0; i < len(text); i++ {
		c := text[i]
		letter := 'a' <= c|0x20 && c|0x20 <= 'z'
		if !letter && (c < '0' || c > '9') && strings.IndexByte("!#$%&'*+-.^_`|~", c) < 0 {
			return false
		}
	}
	return text != ""
}
