package clientip

import (
	"errors"
	"fmt"
	"net/http"
	"net/netip"
)

// Options describes which proxies are in front of the server, and in which header they name the client. The zero value
// trusts no proxy. With a Header, exactly one of Trusted and Hops is required; behind a Unix socket, TrustUnix alone is
// enough. It is a plain value that New copies.
type Options struct {
	// Trusted is the list of the proxies' addresses; ParseProxies reads it. The header is read only if the peer, the other
	// end of the connection, is one of them, and entries of the header that are one of them are skipped. An IPv4 address
	// matches in every notation, and a zone makes no difference. A prefix of length 0 is rejected, because it would trust
	// every client.
	//
	// The addresses of a content delivery network are shared by its other customers, who can send requests to this server
	// through the network with a header of their own choice. Make the network prove that a request comes from your
	// configuration (a client certificate, a secret header, a tunnel), or do not rely on the address.
	Trusted []netip.Prefix

	// Hops is for proxies without fixed addresses: it is how many of them every request passes through, 1 to 100. Each of
	// them adds one entry to the header, so the client is the entry at this position, counted from the right. If it is too
	// high, clients can choose their address; if it is too low, a proxy counts as the client.
	//
	// With Hops the peer's address is not checked, and every peer is believed. Use it only if the server can be reached
	// only through the proxies. With a header that contains a single address, Hops must be 1.
	Hops int

	// Header is the one header that the proxies write; all others are ignored. "X-Forwarded-For" and "Forwarded" (RFC 7239)
	// are lists to which every proxy appends an entry. Any other name is a header with one address, such as "X-Real-IP",
	// "CF-Connecting-IP", "True-Client-IP" or "Fastly-Client-IP"; of several lines the last one counts. Such a header is
	// safe only if the proxy overwrites what the client sent under this name, which not all proxies do by default. The name
	// is not case-sensitive.
	Header string

	// TrustUnix trusts every peer on a Unix socket as a proxy, because such a peer has no address to compare. It can be
	// combined with Trusted or Hops, which then apply to the further proxies and to peers that do have an address. It is
	// needed with Hops too.
	//
	// The permissions of the socket's file decide who may connect, and they matter without TrustUnix as well: a program can
	// give its end of the connection a name that looks like an address, and then counts as that address.
	TrustUnix bool

	// Grouping turns addresses into keys; the zero value makes one key per IPv4 address and one per IPv6 /64 network.
	Grouping Grouping
}

// Headers that contain lists. All others contain one address.
const (
	forwardedFor = "X-Forwarded-For"
	forwarded    = "Forwarded"
)

// New returns the Source that opts describes, or an error that names the field and the fix.
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

// check rejects options that contradict each other. Prefixes are checked where they are read.
func (o Options) check() error {
	name := http.CanonicalHeaderKey(o.Header)
	switch {
	case o.Hops < 0 || o.Hops > maxEntries:
		return fmt.Errorf("clientip: Hops: must be the number of proxies, 1 to %d, or 0 for none, not %d", maxEntries, o.Hops)
	case o.Header == "" && (len(o.Trusted) > 0 || o.Hops > 0 || o.TrustUnix):
		return fmt.Errorf("clientip: Header: missing; name the header in which the proxies write the client's address, such as %s, "+
			"or leave Trusted, Hops and TrustUnix empty to trust no proxy", forwardedFor)
	case o.Header == "":
		return o.Grouping.Check()
	case !isToken(o.Header):
		return fmt.Errorf("clientip: Header: %q is not a valid header name; write one such as %s", o.Header, forwardedFor)
	case len(o.Trusted) > 0 && o.Hops > 0:
		return errors.New("clientip: Hops: cannot be combined with Trusted; keep Trusted if the proxies have known " +
			"addresses, otherwise keep Hops")
	case len(o.Trusted) == 0 && o.Hops == 0 && !o.TrustUnix:
		return fmt.Errorf("clientip: Trusted: missing; list the proxies that may write %s, or set Hops to their number, "+
			"or leave Header empty to trust no proxy", name)
	case o.Hops > 1 && name != forwardedFor && name != forwarded:
		return fmt.Errorf("clientip: Hops: must be 1 with %s, which contains one address, not %d", name, o.Hops)
	}
	return o.Grouping.Check()
}
