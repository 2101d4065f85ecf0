package forward

import (
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strings"

	"github.com/slidegate/slidegate/clientip"
	"github.com/slidegate/slidegate/httplimit"
)

// parseQuery reads a query whose fields are known and there once. What it read is returned with an error too.
func parseQuery(raw string) (fields map[string]string, err error) {
	values, err := url.ParseQuery(raw)
	if err != nil {
		err = errors.New("forward: the query cannot be read: a % without two digits, or a semicolon")
	}
	fields = map[string]string{}
	for name, given := range values {
		if len(given) > 1 && err == nil {
			err = fmt.Errorf("forward: %s: is there twice; keep one", name)
		}
		if !slices.Contains(queryNames, name) && err == nil {
			err = fmt.Errorf("forward: %q is not a field of this query%s (there are mode, policy and token)", name, nearest(name))
		}
		fields[name] = given[0]
	}
	return fields, err
}

var errPassedOn = errors.New("forward: the proxy passes the client's query on, which has a mode or a policy in it; " +
	"end the address with a question mark: " + Path + "?")

// passedOn tells whether the query is the client's: Caddy passes it on unless its configuration says otherwise. Nobody but
// the configuration may say which policy is asked, so such a query is not read.
func passedOn(r *http.Request) bool {
	for _, uri := range r.Header["X-Forwarded-Uri"] {
		if _, query, _ := strings.Cut(uri, "?"); query == r.URL.RawQuery {
			return true
		}
	}
	return false
}

// onThisMachine is the address of those who have none because they connect over a Unix socket.
var onThisMachine = netip.AddrFrom4([4]byte{127, 0, 0, 1})

// trusts reports whether a peer may say whom it asks for because of its address. Everybody else could invent the headers.
func (h *Handler) trusts(peer string) bool {
	addr, ok := clientip.Parse(peer)
	if !ok {
		if !h.opts.TrustUnix || peer != "" && peer[0] != '@' && peer[0] != '/' {
			return false
		}
		addr = onThisMachine
	}
	named := *h.trusted.Load()
	if named == nil {
		return addr.IsLoopback() && h.opts.ValidToken == nil
	}
	for _, proxies := range named {
		if proxies.Contains(addr) || contains4(proxies, addr) {
			return true
		}
	}
	return false
}

// tokenHeader is the header for a token where Authorization is the client's.
const tokenHeader = "X-Slidegate-Token"

// authorized reports whether the caller shows a token. Clients' own headers may be passed on beside what the proxy sets, so a wrong
// token in one place does not rule out a right one in another.
func (h *Handler) authorized(r *http.Request, inQuery string) bool {
	valid := h.opts.ValidToken
	if valid == nil {
		return false
	}
	if inQuery != "" && valid(inQuery) || slices.ContainsFunc(r.Header[tokenHeader], valid) {
		return true
	}
	return slices.ContainsFunc(r.Header["Authorization"], func(line string) bool {
		scheme, token, _ := strings.Cut(line, " ")
		return strings.EqualFold(scheme, "Bearer") && valid(strings.TrimSpace(token))
	})
}

// howToTrust is what to do about a caller that is not trusted.
func (h *Handler) howToTrust() string {
	if h.opts.ValidToken == nil {
		return "add its address to trusted_proxies"
	}
	return "have it send a token in X-Slidegate-Token, or add its address to trusted_proxies"
}

// contains4 is for a prefix of IPv4 that is written in IPv6.
func contains4(p netip.Prefix, addr netip.Addr) bool {
	return p.Addr().Is4In6() && p.Bits() >= 96 && netip.PrefixFrom(p.Addr().Unmap(), p.Bits()-96).Contains(addr)
}

// said are the headers in which a proxy says which request it asks about.
type said struct{ method, uri string }

var saidBy = map[Mode]said{
	Forwarded: {"X-Forwarded-Method", "X-Forwarded-Uri"},
	Nginx:     {"X-Original-Method", "X-Original-Uri"},
}

// rebuild makes the request that a proxy got of the one that it sent. The result is as if this program stood in the proxy's
// place: connected is whoever was connected to the proxy, which is the last entry of X-Forwarded-For, and the header is
// what that one had sent. So a client that invents entries remains one client, whether or not the proxy passes them on; and
// where the proxy's own peer is a trusted proxy, the gate looks further by the same rule. If the proxy does not name its
// peer, it is itself the client, and everybody behind it shares its quota.
func rebuild(r *http.Request, mode Mode) (*http.Request, error) {
	method, err := only(r.Header, saidBy[mode].method)
	if err != nil {
		return nil, err
	}
	if !isToken(method) {
		return nil, fmt.Errorf("forward: %s: is not a method", saidBy[mode].method)
	}
	uri, err := only(r.Header, saidBy[mode].uri)
	if err != nil {
		return nil, err
	}
	uri, _, _ = strings.Cut(uri, "#") // nginx routes without a fragment, and url.ParseRequestURI takes it for a part of the path
	u, err := url.ParseRequestURI(uri)
	if err != nil {
		return nil, fmt.Errorf("forward: %s: is not a path with a query, such as /login?next=home", saidBy[mode].uri)
	}
	asked := &http.Request{
		Method: method, URL: u, Proto: r.Proto, ProtoMajor: r.ProtoMajor, ProtoMinor: r.ProtoMinor,
		Header: maps.Clone(r.Header), Body: http.NoBody, Host: r.Host, RemoteAddr: r.RemoteAddr, RequestURI: uri,
	}
	if mode == Forwarded {
		if asked.Host = r.Header.Get("X-Forwarded-Host"); len(r.Header["X-Forwarded-Host"]) > 1 {
			return nil, errors.New("forward: X-Forwarded-Host: is there twice; have the proxy overwrite what clients send")
		}
		if proto := r.Header.Get("X-Forwarded-Proto"); proto == "http" || proto == "https" {
			u.Scheme, u.Host = proto, asked.Host
		}
	}
	delete(asked.Header, tokenHeader) // it is the proxy's, and must not become part of a key
	// Proxies find the same site under SHOP.example and shop.example., and that must not be a way around a policy for it.
	asked.Host = httplimit.CanonicalHost(asked.Host)
	stepBack(asked)
	return asked, nil
}

// only returns the value of a header that must be there once. Twice means that the proxy adds to what the client sent.
func only(h http.Header, name string) (string, error) {
	switch lines := h[name]; {
	case len(lines) == 0 || lines[0] == "":
		return "", fmt.Errorf("forward: %s: is missing; have the proxy set it (docs/forward-auth.md), and see that the mode is right", name)
	case len(lines) > 1:
		return "", fmt.Errorf("forward: %s: is there twice; have the proxy overwrite what clients send", name)
	default:
		return lines[0], nil
	}
}

const forwardedFor = "X-Forwarded-For"

// stepBack moves the last entry of X-Forwarded-For to where the peer stands.
func stepBack(r *http.Request) {
	lines := r.Header[forwardedFor]
	delete(r.Header, forwardedFor)
	if len(lines) == 0 {
		return
	}
	last := lines[len(lines)-1]
	comma := strings.LastIndexByte(last, ',')
	peer, ok := clientip.Parse(strings.Trim(last[comma+1:], " \t"))
	if !ok {
		return // it names nobody, and what is further left anybody can have written
	}
	r.RemoteAddr = netip.AddrPortFrom(peer, 0).String()
	lines = lines[: len(lines)-1 : len(lines)-1]
	if comma >= 0 {
		lines = append(lines, last[:comma]) // a copy
	}
	if len(lines) > 0 {
		r.Header[forwardedFor] = lines
	}
}

// isToken tells whether text can be a method (RFC 9110, 5.6.2).
func isToken(text string) bool {
	for i := range len(text) {
		c := text[i]
		letter := 'a' <= c|0x20 && c|0x20 <= 'z'
		if !letter && (c < '0' || c > '9') && strings.IndexByte("!#$%&'*+-.^_`|~", c) < 0 {
			return false
		}
	}
	return text != ""
}
