package clientip

import (
	"net/http"
	"net/netip"
)

// NoAddress is the key of every client that has no address: of those on a Unix socket, and of a peer that is not written
// as an address. They share it.
const NoAddress = "unix"

// maxEntries is how many entries of a header are looked at. No request passes this many proxies.
const maxEntries = 100

// Source finds out who the client of a request is. It knows two that might be: the peer, which is whoever is connected,
// and the one that a trusted peer names in the configured header.
//
//   - A peer that is not trusted is the client, and headers are not read at all.
//   - All lines of the header are one list, which is read from the right: there stands what the nearest proxy has added,
//     and everything to the left of what trusted proxies have added may be invented. The first entry that is not the
//     address of a trusted proxy is the client. With Hops it is the entry at that place.
//   - If that names nobody, then the peer is the client, and never somebody further left: if the header is missing, if
//     an entry is reached that is no address ("unknown", an empty one) or longer than a kilobyte, if there are fewer
//     entries than Hops, if 100 of them are proxies, and if all of them are, for whoever wrote the leftmost one may have
//     chosen it freely. Clients that hide in this way share the quota of their proxy.
//
// It does not change the request. The zero value trusts nobody, and so does a nil Source. It is safe for concurrent use.
type Source struct {
	trusted  proxySet
	hops     int        // 0 if trusted says who is believed
	header   string     // in canonical form; empty if nobody is believed
	cut      entryShape // nil for a header of one address
	unix     bool
	grouping Grouping
}

// nobody is what a nil Source stands for.
var nobody Source

// entryShape cuts the last entry off a line of a header, and reads nothing to the left of it. It returns the
// address that the entry names, which is the zero Addr if it names none, and the rest of the line, if there is more of
// it. It is not ok if it cannot be told where the entry begins.
type entryShape func(line string) (addr netip.Addr, rest string, more, ok bool)

// Header returns the canonical name of the header that is read, or "" if there is none. Callers of Find and KeyOf look up
// the lines by it.
func (s *Source) Header() string {
	if s == nil {
		return ""
	}
	return s.header
}

// Addr returns the address of r's client, in IPv4 if it has one, and without a zone. It is false if the client has none,
// which is so on a Unix socket.
func (s *Source) Addr(r *http.Request) (netip.Addr, bool) { return s.Find(r.RemoteAddr, s.lines(r)) }

// Key returns the key of r's client: the group of its address as text, or NoAddress.
func (s *Source) Key(r *http.Request) string {
	if key, ok := s.peerKey(r.RemoteAddr); ok {
		return key
	}
	return s.keyOf(r.RemoteAddr, s.lines(r))
}

// lines returns all lines of the configured header.
func (s *Source) lines(r *http.Request) []string {
	if s == nil || s.header == "" {
		return nil
	}
	return r.Header[s.header]
}

// Find is Addr for requests of every kind: peer is the address of whoever is connected, as text with or without a port,
// and lines are all lines of the header that Header names, in the order in which they came.
func (s *Source) Find(peer string, lines []string) (netip.Addr, bool) {
	if s == nil {
		s = &nobody
	}
	addr, ok := Parse(peer)
	if s.believes(peer, addr) {
		if named, ok := s.named(lines); ok {
			return named, true
		}
	}
	return addr, ok
}

// KeyOf is Key for requests of every kind; peer and lines are those of Find.
func (s *Source) KeyOf(peer string, lines []string) string {
	if key, ok := s.peerKey(peer); ok {
		return key
	}
	return s.keyOf(peer, lines)
}

// peerKey returns the key in the usual case, in which it need not be written: an IPv4 peer that is the client, and a group
// by itself, has the first part of its text for a key.
func (s *Source) peerKey(peer string) (key string, ok bool) {
	quad, end, ok := parse4(peer)
	if !ok || !endsAfter4(peer[end:]) {
		return "", false
	}
	if s != nil && (s.grouping.v4() != 32 || s.header != "" && s.believes(peer, netip.AddrFrom4(quad))) {
		return "", false
	}
	return peer[:end], true
}

// keyOf is KeyOf in every case.
func (s *Source) keyOf(peer string, lines []string) string {
	addr, ok := s.Find(peer, lines)
	if !ok {
		return NoAddress
	}
	var grouping Grouping
	if s != nil {
		grouping = s.grouping
	}
	var key [64]byte
	return string(grouping.Append(key[:0], addr))
}

// believes tells whether peer may name the client. Its address is the zero Addr if it has none.
func (s *Source) believes(peer string, addr netip.Addr) bool {
	switch {
	case s.header == "":
		return false
	case !addr.IsValid():
		return s.unix && isUnix(peer)
	}
	return s.hops > 0 || s.trusted.has(addr)
}

// isUnix tells whether peer is how a Unix socket's other end is written: nothing at all, or @, or the name that it was
// given. Other texts without an address are not known to come from there.
func isUnix(peer string) bool { return peer == "" || peer[0] == '@' || peer[0] == '/' }

// named returns the client that the header names, if there is one to believe.
func (s *Source) named(lines []string) (client netip.Addr, ok bool) {
	if s.cut == nil {
		return s.namedAlone(lines)
	}
	seen := 0
	for i := len(lines) - 1; i >= 0; i-- {
		for line, more := lines[i], true; more; {
			client, line, more, ok = s.cut(line)
			seen++
			switch {
			case !ok || seen > maxEntries:
				return netip.Addr{}, false
			case s.hops > seen:
				continue // a proxy's, whatever it says
			case !client.IsValid():
				return netip.Addr{}, false
			case s.hops > 0 || !s.trusted.has(client):
				return client, true
			}
		}
	}
	return netip.Addr{}, false
}

// namedAlone is named for a header of one address. The last line is the one that the nearest proxy has added, if it did
// not overwrite what there was.
func (s *Source) namedAlone(lines []string) (netip.Addr, bool) {
	if len(lines) == 0 {
		return netip.Addr{}, false
	}
	client, ok := Parse(trimSpace(lines[len(lines)-1]))
	return client, ok && !s.trusted.has(client)
}
