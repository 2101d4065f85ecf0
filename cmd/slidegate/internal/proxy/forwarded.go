package proxy

import (
	"net/http/httputil"

	"github.com/slidegate/slidegate/clientip"
)

// trusts tells whether the peer is a proxy that is trusted.
func (p *Proxy) trusts(peer string) bool {
	proxies := *p.trusted.Load()
	if len(proxies) == 0 {
		return false
	}
	addr, ok := clientip.Parse(peer)
	if !ok {
		return false
	}
	for _, prefix := range proxies {
		if prefix.Contains(addr) {
			return true
		}
	}
	return false
}

// forward tells the application who the client is. Behind a proxy that is trusted, that is its word with the proxy's own
// address added. Everybody else is believed nothing, and the application, to which we are the peer, must not believe it
// either: so all that names a client, a host or a scheme is taken out and written anew.
func (p *Proxy) forward(r *httputil.ProxyRequest) {
	in, out := r.In.Header, r.Out.Header
	trusted := p.trusts(r.In.RemoteAddr)
	dropUntold(out, trusted)
	dropUntold(r.Out.Trailer, trusted) // those that are announced; the others come with the end of the body
	if way, ok := r.In.Context().Value(passingKey{}).(*passing); ok && way.body != nil {
		way.body.atEnd = func() { dropUntold(r.Out.Trailer, trusted) }
	}
	if !trusted {
		r.SetXForwarded()
		return
	}
	keep := func(name string) {
		if lines, ok := in[name]; ok {
			out[name] = lines
		}
	}
	keep("X-Forwarded-For")
	r.SetXForwarded()
	keep("X-Forwarded-Host")
	keep("X-Forwarded-Proto")
	keep("Forwarded")
}
