package proxy

import (
	"bytes"
	"net/http"
)

// Clients name themselves, their host or the path that they want in many headers, because some proxy somewhere writes each of them
// and some application believes it. What is below is in lower case, with a hyphen for whatever is neither a letter nor a digit: that
// is how many applications read names, to which X_Forwarded_For is X-Forwarded-For.
var (
	untoldPrefixes = [][]byte{
		[]byte("x-forwarded-"), []byte("x-original-"), []byte("x-real-"), []byte("x-appengine-"),
	}
	// The ends of names in which some network or other names the client: Fastly-Client-IP, X-Azure-ClientIP, DO-Connecting-IP.
	untoldSuffixes = [][]byte{
		[]byte("client-ip"), []byte("clientip"), []byte("client-addr"), []byte("client-address"), []byte("client-connection-ip"),
		[]byte("connecting-ip"), []byte("connecting-ipv6"), []byte("forwarded-for"), []byte("originating-ip"),
		[]byte("real-ip"), []byte("remote-addr"), []byte("remote-ip"), []byte("socketip"), []byte("src-ip"), []byte("user-ip"),
		[]byte("source-ip"), []byte("sourceip"), []byte("peer-ip"), []byte("caller-ip"), []byte("trusted-ip"), []byte("remote-host"),
		[]byte("viewer-address"), []byte("ip-authorization"),
	}
	untoldNames = map[string]bool{
		"forwarded": true, "x-forwarded": true, "x-cluster-client": true, "cf-pseudo-ipv4": true, "cf-visitor": true, "x-envoy-external-address": true,
		"x-envoy-original-path": true, "x-envoy-original-host": true, "x-envoy-internal": true, "x-vercel-proxied-for": true,
		"cloudfront-forwarded-proto": true, "x-coming-from": true, "x-host": true,
		"x-http-host-override": true, "x-scheme": true, "x-url-scheme": true, "front-end-https": true, "x-arr-ssl": true, "x-script-name": true,
		"x-rewrite-url": true, "x-rewrite-uri": true, "x-http-destinationurl": true, "x-proxy-url": true, "request-uri": true, "x-request-uri": true,
	}
)

// untold reports whether the application is not to be told a header of a client: because it names the client, the host or the
// path, or because it is another spelling of one that does. Odd spellings nobody writes but clients, also where a proxy is trusted.
func untold(name string, trusted bool) bool {
	var room [64]byte
	plain, odd := room[:0], false
	for i := range len(name) {
		c := name[i]
		switch {
		case 'A' <= c && c <= 'Z':
			c |= 0x20
		case 'a' <= c && c <= 'z', '0' <= c && c <= '9', c == '-':
		default:
			c, odd = '-', true
		}
		plain = append(plain, c)
	}
	if trusted && !odd {
		return false
	}
	if untoldNames[string(plain)] {
		return true
	}
	for _, prefix := range untoldPrefixes {
		if bytes.HasPrefix(plain, prefix) {
			return true
		}
	}
	for _, suffix := range untoldSuffixes {
		if bytes.HasSuffix(plain, suffix) {
			return true
		}
	}
	return false
}

// dropUntold removes from headers, or from trailers, what the application is not to be told.
func dropUntold(h http.Header, trusted bool) {
	for name := range h {
		if untold(name, trusted) {
			delete(h, name)
		}
	}
}
