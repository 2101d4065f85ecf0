package clientip

import (
	"net/http"
	"net/netip"
)

// NoAddress is the key shared by all clients without an address: those on a Unix socket, and peers that are not written as
// an address.
const NoAddress = "unix"

// maxEntries is how many entries of a header are read. No request passes through that many proxies.
const maxEntries = 100

// Source finds the client of a request. That is either the peer, the other end of the connection, or the address that a
// trusted peer names in the configured header.
//
//   - A peer that is not trusted is the client, and headers are not read at all.
//   - All lines of the header are one list, which is read from the right: the rightmost entry is what the nearest proxy has
//     added, and everything to the left of what trusted proxies have added may be forged. The first entry that is not the
//     address of a trusted proxy is the client. With Hops it is the entry at that position.
//   - If that entry names no client, the peer is the client, and never an entry further left. This applies if the
//     header is missing, if the entry is not an address ("unknown", empty), is the address of no one (0.0.0.0, ::) or is
//     longer than a kilobyte, if there are fewer entries than Hops, if 100 of them are proxies, and if all of them are, because the leftmost one may have
//     been chosen freely. Clients that hide in this way share the quota of their proxy.
//
// It does not change the request. The zero value trusts no proxy, and so does a nil Source. It is safe for concurrent use.
type Source struct {
	trusted  proxySet
	hops     int      // 0 if trusted decides which peers are believed
	header   string   // in canonical form; empty if no peer is believed
	cut      cutEntry // nil for a header of one address
	unix     bool
	grouping Grouping
}

// noProxies is the Source that nil stands for.
var noProxies Source

// cutEntry cuts the last entry off a header line, and reads nothing to the left of it. It returns the address that the
// entry names, which is the zero Addr if it names none, and the rest of the line, if there is more. It is not ok if it
// cannot find where the entry begins.
type cutEntry func(line string) (addr netip.Addr, rest string, more, ok bool)

// Header returns the canonical name of the header that is read, or "" if there is none. Callers of AddrOf and KeyOf use
// it to look up the lines.
func (s *Source) Header() string {
	if s == nil {
		return ""
	}
	return s.header
}

// Grouping returns the grouping of the keys.
func (s *Source) Grouping() Grouping {
	if s == nil {
		return Grouping{}
	}
	return s.grouping
}

// Addr returns the address of r's client, as IPv4 if possible, and without a zone. It returns false if the client has no
// address, as on a Unix socket.
func (s *Source) Addr(r *http.Request) (netip.Addr, bool) { return s.AddrOf(r.RemoteAddr, s.lines(r)) }

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

// AddrOf is Addr for requests of any protocol: peer is the address of the other end of the connection, as text with or
// without a port, and lines are all lines of the header that Header names, in the order in which they arrived.
func (s *Source) AddrOf(peer string, lines []string) (netip.Addr, bool) {
	if s == nil {
		s = &noProxies
	}
	addr, ok := Parse(peer)
	if s.trusts(peer, addr) {
		if named, ok := s.fromHeader(lines); ok {
			return named, true
		}
	}
	return addr, ok
}

// KeyOf is Key for requests of any protocol; peer and lines are as in AddrOf.
func (s *Source) KeyOf(peer string, lines []string) string {
	if key, ok := s.peerKey(peer); ok {
		return key
	}
	return s.keyOf(peer, lines)
}

// peerKey returns the key in the usual case, in which no new string is needed: the key of an IPv4 peer that is the client,
// and its own group, is the first part of its text.
func (s *Source) peerKey(peer string) (key string, ok bool) {
	quad, end, ok := parse4(peer)
	if !ok || !endsAfter4(peer[end:]) {
		return "", false
	}
	if s != nil && (s.grouping.v4() != 32 || s.header != "" && s.trusts(peer, netip.AddrFrom4(quad))) {
		return "", false
	}
	return peer[:end], true
}

// keyOf is KeyOf for all cases.
func (s *Source) keyOf(peer string, lines []string) string {
	addr, ok := s.AddrOf(peer, lines)
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

// trusts reports whether peer may name the client. Its address is the zero Addr if it has none.
func (s *Source) trusts(peer string, addr netip.Addr) bool {
	switch {
	case s.header == "":
		return false
	case !addr.IsValid():
		return s.unix && isUnix(peer)
	}
	return s.hops > 0 || s.trusted.has(addr)
}

// isUnix reports whether peer is the other end of a Unix socket, which is written as nothing at all, as @, or as its name.
// Other texts without an address are not known to come from a Unix socket.
func isUnix(peer string) bool { return peer == "" || peer[0] == '@' || peer[0] == '/' }

// fromHeader returns the client that the header names, if it names a client that can be trusted.
func (s *Source) fromHeader(lines []string) (client netip.Addr, ok bool) {
	if s.cut == nil {
		return s.fromSingle(lines)
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
				continue // the entry of a proxy, whatever it contains
			case !client.IsValid() || client.IsUnspecified():
				return netip.Addr{}, false
			case s.hops > 0 || !s.trusted.has(client):
				return client, true
			}
		}
	}
	return netip.Addr{}, false
}

// fromSingle is fromHeader for a header with one address. The last line is the one that the nearest proxy has added, if
// it did not overwrite the existing ones.
func (s *Source) fromSingle(lines []string) (netip.Addr, bool) {
	if len(lines) == 0 {
		return netip.Addr{}, false
	}
	client, ok := Parse(trimSpace(lines[len(lines)-1]))
	return client, ok && !client.IsUnspecified() && !s.trusted.has(client)
}
