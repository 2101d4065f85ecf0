package proxy

import (
	"bytes"
	"net/http"

	"github.com/slidegate/slidegate/cmd/slidegate/internal/gate"
)

// Clients can claim an address, a host or a path in many headers: for each of these headers there is a proxy that writes it and
// an application that believes it. The names below are in lower case, with a hyphen for anything that is neither a letter nor a
// digit, because many applications normalize names in this way and treat X_Forwarded_For as X-Forwarded-For.
var (
	spoofablePrefixes = [][]byte{
		[]byte("x-forwarded-"), []byte("x-original-"), []byte("x-real-"), []byte("x-appengine-"),
	}
	// Suffixes of names in which various networks name the client: Fastly-Client-IP, X-Azure-ClientIP, DO-Connecting-IP.
	spoofableSuffixes = [][]byte{
		[]byte("client-ip"), []byte("clientip"), []byte("client-addr"), []byte("client-address"), []byte("client-connection-ip"),
		[]byte("connecting-ip"), []byte("connecting-ipv6"), []byte("forwarded-for"), []byte("originating-ip"),
		[]byte("real-ip"), []byte("remote-addr"), []byte("remote-ip"), []byte("socketip"), []byte("src-ip"), []byte("user-ip"),
		[]byte("source-ip"), []byte("sourceip"), []byte("peer-ip"), []byte("caller-ip"), []byte("trusted-ip"), []byte("remote-host"),
		[]byte("viewer-address"), []byte("ip-authorization"),
	}
	spoofableNames = map[string]bool{
		"forwarded": true, "x-forwarded": true, "x-cluster-client": true, "cf-pseudo-ipv4": true, "cf-visitor": true, "x-envoy-external-address": true,
		"x-envoy-original-path": true, "x-envoy-original-host": true, "x-envoy-internal": true, "x-vercel-proxied-for": true,
		"cloudfront-forwarded-proto": true, "x-coming-from": true, "x-host": true,
		"x-http-host-override": true, "x-scheme": true, "x-url-scheme": true, "front-end-https": true, "x-arr-ssl": true, "x-script-name": true,
		"x-rewrite-url": true, "x-rewrite-uri": true, "x-http-destinationurl": true, "x-proxy-url": true, "x-waws-unencoded-url": true, "request-uri": true, "x-request-uri": true,
	}
)

// spoofable reports whether a client's header must not reach the application: because it names the client, the host or the path, or
// is another spelling of such a header. Odd spellings are removed even from trusted proxies, since only clients write them.
func spoofable(name string, trusted bool) bool {
	var buf [64]byte
	plain, odd := gate.PlainName(buf[:0], name)
	if string(plain) == "proxy" { // CGI programs read it as the variable HTTP_PROXY, and send their own requests there
		return true
	}
	if trusted && !odd {
		return false
	}
	if spoofableNames[string(plain)] {
		return true
	}
	for _, prefix := range spoofablePrefixes {
		if bytes.HasPrefix(plain, prefix) {
			return true
		}
	}
	for _, suffix := range spoofableSuffixes {
		if bytes.HasSuffix(plain, suffix) {
			return true
		}
	}
	return false
}

// dropSpoofable removes spoofable headers or trailers.
func (p *Proxy) dropSpoofable(h http.Header, trusted bool) {
	p.dropOdd(h)
	for name := range h {
		if spoofable(name, trusted) {
			delete(h, name)
		}
	}
}
