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
	"github.com/slidegate/slidegate/internal/match"
)

// parseQuery reads a query whose fields must be known and unique. On an error, it still returns what it read.
func parseQuery(raw string) (fields map[string]string, err error) {
	values, err := url.ParseQuery(raw)
	if err != nil {
		err = errors.New("forward: invalid query: a % without two hex digits, or a semicolon")
	}
	fields = map[string]string{}
	for name, given := range values {
		if len(given) > 1 && err == nil {
			err = fmt.Errorf("forward: %s: duplicate field; keep one", name)
		}
		if !slices.Contains(queryNames, name) && err == nil {
			err = fmt.Errorf("forward: %q is not a field of this query%s (want mode, policy or token)", name, suggestion(name))
		}
		fields[name] = given[0]
	}
	return fields, err
}

var errClientQuery = errors.New("forward: the proxy passes on the client's query, which contains a mode or a policy; " +
	"end the address with a question mark: " + Path + "?")

// isClientQuery reports whether the query is the client's: Caddy passes it on unless configured otherwise. Only the
// configuration may choose the policy, so such a query is ignored.
func isClientQuery(r *http.Request) bool {
	for _, uri := range r.Header["X-Forwarded-Uri"] {
		if _, query, _ := strings.Cut(uri, "?"); query == r.URL.RawQuery {
			return true
		}
	}
	return false
}

// loopbackAddr stands in for the address of a caller on a Unix socket, which has none.
var loopbackAddr = netip.AddrFrom4([4]byte{127, 0, 0, 1})

// trusts reports whether a peer is a trusted proxy by its address. Any other peer could forge the headers.
func (h *Handler) trusts(peer string) bool {
	addr, ok := clientip.Parse(peer)
	if !ok {
		if !h.opts.TrustUnix || peer != "" && peer[0] != '@' && peer[0] != '/' {
			return false
		}
		addr = loopbackAddr
	}
	trusted, listed := h.gate.Trusts(addr)
	return trusted || !listed && addr.IsLoopback() && h.opts.ValidToken == nil
}

// tokenHeader is the header for a token if Authorization is the client's.
const tokenHeader = "X-Slidegate-Token"

// authorized reports whether the caller sent a valid token. Clients' own headers may be passed on together with those
// of the proxy, so an invalid token in one place does not rule out a valid one in another.
func (h *Handler) authorized(r *http.Request, queryToken string) bool {
	valid := h.opts.ValidToken
	if valid == nil {
		return false
	}
	if queryToken != "" && valid(queryToken) || slices.ContainsFunc(r.Header[tokenHeader], valid) {
		return true
	}
	return slices.ContainsFunc(r.Header["Authorization"], func(line string) bool {
		scheme, token, _ := strings.Cut(line, " ")
		return strings.EqualFold(scheme, "Bearer") && valid(strings.TrimSpace(token))
	})
}

// trustAdvice returns what to do about an untrusted caller.
func (h *Handler) trustAdvice() string {
	if h.opts.ValidToken == nil {
		return "add its address to trusted_proxies"
	}
	return "have it send a token in X-Slidegate-Token, or add its address to trusted_proxies"
}

// headerNames holds the headers in which a proxy describes the request.
type headerNames struct{ method, uri string }

var requestHeaders = map[Mode]headerNames{
	Forwarded: {"X-Forwarded-Method", "X-Forwarded-Uri"},
	Nginx:     {"X-Original-Method", "X-Original-Uri"},
}

// rebuild converts the proxy's request to the one that the proxy received, as if this program ran in place of the
// proxy: the peer is the proxy's peer, which is the last entry of X-Forwarded-For, and the header is what that peer
// sent. So a client that forges entries remains one client, whether or not the proxy passes them on. If the proxy's
// peer is a trusted proxy too, the gate continues with the entry before it, by the same rule. If the proxy does not
// name its peer, the proxy itself is the client, and everything behind it shares its quota.
func rebuild(r *http.Request, mode Mode) (*http.Request, error) {
	method, err := singleHeader(r.Header, requestHeaders[mode].method)
	if err != nil {
		return nil, err
	}
	if !isToken(method) {
		return nil, fmt.Errorf("forward: %s: not a method", requestHeaders[mode].method)
	}
	uri, err := singleHeader(r.Header, requestHeaders[mode].uri)
	if err != nil {
		return nil, err
	}
	u, err := url.ParseRequestURI(uri)
	if err != nil || u.Opaque != "" {
		return nil, fmt.Errorf("forward: %s: not a path with a query, such as /login?next=home", requestHeaders[mode].uri)
	}
	u.RawQuery, _, _ = strings.Cut(u.RawQuery, "#") // one in the path stays: matchers and keys read it with and without
	original := &http.Request{
		Method: method, URL: u, Proto: r.Proto, ProtoMajor: r.ProtoMajor, ProtoMinor: r.ProtoMinor,
		Header: maps.Clone(r.Header), Body: http.NoBody, Host: r.Host, RemoteAddr: r.RemoteAddr, RequestURI: uri,
	}
	if mode == Forwarded {
		if original.Host = r.Header.Get("X-Forwarded-Host"); len(r.Header["X-Forwarded-Host"]) > 1 {
			return nil, errors.New("forward: X-Forwarded-Host: duplicate header; have the proxy overwrite what clients send")
		}
		if proto := r.Header.Get("X-Forwarded-Proto"); proto == "http" || proto == "https" {
			u.Scheme, u.Host = proto, original.Host
		}
	}
	delete(original.Header, tokenHeader) // the proxy's token must not become part of a key
	// Proxies serve the same site as SHOP.example and shop.example., which must not be a way around its policy.
	original.Host = match.CanonicalHost(original.Host)
	setPeer(original)
	return original, nil
}

// singleHeader returns the value of a header that must occur once. A duplicate means that the proxy adds its value to what
// the client sent.
func singleHeader(h http.Header, name string) (string, error) {
	switch lines := h[name]; {
	case len(lines) == 0 || lines[0] == "":
		return "", fmt.Errorf("forward: %s: is missing; have the proxy set it (docs/forward-auth.md), and check the mode", name)
	case len(lines) > 1:
		return "", fmt.Errorf("forward: %s: duplicate header; have the proxy overwrite what clients send", name)
	default:
		return lines[0], nil
	}
}

const forwardedFor = "X-Forwarded-For"

// setPeer makes the last entry of X-Forwarded-For the peer.
func setPeer(r *http.Request) {
	lines := r.Header[forwardedFor]
	delete(r.Header, forwardedFor)
	if len(lines) == 0 {
		return
	}
	last := lines[len(lines)-1]
	comma := strings.LastIndexByte(last, ',')
	peer, ok := clientip.Parse(strings.Trim(last[comma+1:], " \t"))
	if !ok {
		return // invalid, and anyone can have written the entries to its left
	}
	r.RemoteAddr = netip.AddrPortFrom(peer, 0).String()
	lines = lines[: len(lines)-1 : len(lines)-1]
	if comma >= 0 {
		lines = append(lines, last[:comma]) // copies, since the capacity is clipped
	}
	if len(lines) > 0 {
		r.Header[forwardedFor] = lines
	}
}

// isToken reports whether text is a valid method (RFC 9110, 5.6.2).
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
