package clientip

import (
	"errors"
	"fmt"
	"net/http"
	"net/netip"
)

// Options say which proxies stand before the server, and in which header they name the client. The zero value trusts
// nobody. With a Header, exactly one of Trusted and Hops says whom to believe; behind a Unix socket, TrustUnix alone will
// do. It is a plain value that New copies.
type Options struct {
	// Trusted are the addresses of the proxies, which ParseProxies reads. The header is read only if the peer, which is
	// whoever is connected, is one of them, and in it everybody is passed over who is one of them. An IPv4 address matches
	// however it is written, and a zone makes no difference. A prefix of length 0 is refused, for it would trust every
	// client.
	//
	// The addresses of a content delivery network are those of its other customers too, who can send its requests to this
	// server with a header of their making. Have the network prove that it is yours (a client certificate, a secret
	// header, a tunnel), or do not rely on the address.
	Trusted []netip.Prefix

	// Hops is for proxies that have no fixed addresses: how many of them every request passes, 1 to 100. Each of them adds
	// one entry to the header, so the client is the entry that stands at this place, counted from the right. A number too
	// high lets clients choose their address; one too low takes a proxy for the client.
	//
	// With Hops the peer is not compared with any address. Use it only if the server cannot be reached but through the
	// proxies: whoever is connected is believed. With a header of a single address, Hops is 1.
	Hops int

	// Header is the one header that the proxies write; every other is ignored, whatever it says. "X-Forwarded-For" and
	// "Forwarded" (RFC 7239) are lists to which every proxy adds an entry at the right. Any other name is a header of one
	// address, such as "X-Real-IP", "CF-Connecting-IP", "True-Client-IP" or "Fastly-Client-IP"; of several lines the last
	// one counts. Such a header is safe only if the proxy overwrites what the client sent under this name, which not all of
	// them do by themselves. Upper and lower case are the same.
	Header string

	// TrustUnix makes a proxy of everybody who connects over a Unix socket, where there is no address to compare. It goes
	// together with Trusted or Hops, which are then about the further proxies and about peers that do have an address, and
	// it is needed with Hops too.
	//
	// Who may connect is up to the permissions of the socket's file, and those matter without TrustUnix as well: a program
	// can give its end of the connection a name that looks like an address, and is then taken for that.
	TrustUnix bool

	// Grouping makes keys of addresses; the zero value is one key for an IPv4 address and one for an IPv6 network of /64.
	Grouping Grouping
}

// The headers that are lists. All others hold one address.
const (
	forwardedFor = "X-Forwarded-For"
	forwarded    = "Forwarded"
)

// New returns the Source that opts describe, or an error that names the field and the fix.
func New(opts Options) (*Source, error) {
	if err := opts.check(); err != nil {
		return nil, err
	}
	trusted, err := newProxySet(opts.Trusted)
	if err != nil {
		return nil, err
	}
	s := &Source{trusted: trusted, hops: opts.Hops, unix: opts.TrustUnix, grouping: opts.Grouping}
	s.header = http.CanonicalHeaderKey(opts.Header)
	switch s.header {
	case forwardedFor:
		s.cut = cutAddress
	case forwarded:
		s.cut = cutElement
	}
	return s, nil
}

// check finds what does not go together. The prefixes are checked where they are read.
func (o Options) check() error {
	name := http.CanonicalHeaderKey(o.Header)
	switch {
	case o.Hops < 0 || o.Hops > maxEntries:
		return fmt.Errorf("clientip: Hops: must be the number of proxies, 1 to %d, or 0 for none, not %d", maxEntries, o.Hops)
	case o.Header == "" && (len(o.Trusted) > 0 || o.Hops > 0 || o.TrustUnix):
		return fmt.Errorf("clientip: Header: is missing; name the header in which the proxies write the client, such as %s, "+
			"or leave Trusted, Hops and TrustUnix empty to trust nobody", forwardedFor)
	case o.Header == "":
		return o.Grouping.Check()
	case !isToken(o.Header):
		return fmt.Errorf("clientip: Header: %q cannot be the name of a header; write one such as %s", o.Header, forwardedFor)
	case len(o.Trusted) > 0 && o.Hops > 0:
		return errors.New("clientip: Hops: does not go together with Trusted; keep Trusted if the proxies have known " +
			"addresses, or else Hops")
	case len(o.Trusted) == 0 && o.Hops == 0 && !o.TrustUnix:
		return fmt.Errorf("clientip: Trusted: is missing; say which proxies may write %s, or with Hops how many there are, "+
			"or leave Header empty to trust nobody", name)
	case o.Hops > 1 && name != forwardedFor && name != forwarded:
		return fmt.Errorf("clientip: Hops: must be 1 with %s, which holds one address, not %d", name, o.Hops)
	}
	return o.Grouping.Check()
}
