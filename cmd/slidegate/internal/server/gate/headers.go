package gate

import (
	"net/http"
	"strings"
)

// AmbiguousHeader returns a header that determines a key, a plan or a cost of some policy and that servers read in different ways in
// this request; "" if there is none. Of several lines each server uses another one, and applications that follow CGI treat X_Api_Key
// as X-Api-Key. A client could otherwise be counted by one value and served by another.
func (g *Gate) AmbiguousHeader(r *http.Request) string {
	names := g.current.Load().headers
	for _, name := range names {
		if len(r.Header[name]) > 1 {
			return name
		}
	}
	if len(names) == 0 {
		return ""
	}
	var buf [64]byte
	for written := range r.Header {
		if plain, odd := PlainName(buf[:0], written); odd {
			if name := find(names, string(plain)); name != "" {
				return name
			}
		}
	}
	return ""
}

// HasHeader reports whether a header, by its plain name, determines a key, a plan or a cost of some policy.
func (g *Gate) HasHeader(plain string) bool { return find(g.current.Load().headers, plain) != "" }

// find returns the header with this plain name, or "".
func find(names []string, plain string) string {
	for _, name := range names {
		if strings.EqualFold(name, plain) {
			return name
		}
	}
	return ""
}

// PlainName appends the name of a header in lower case, with a hyphen for anything that is neither a letter nor a digit, as applications
// normalize names. It reports whether there was anything but letters, digits and hyphens.
func PlainName(to []byte, name string) (plain []byte, odd bool) {
	for i := range len(name) {
		c := name[i]
		switch {
		case 'A' <= c && c <= 'Z':
			c |= 0x20
		case 'a' <= c && c <= 'z', '0' <= c && c <= '9', c == '-':
		default:
			c, odd = '-', true
		}
		to = append(to, c)
	}
	return to, odd
}
