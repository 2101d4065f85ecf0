package proxy

import (
	"net/http/httputil"

	"github.com/slidegate/slidegate/clientip"
)

// forward sets the headers that tell the application who the client is. Headers from a trusted proxy are kept, and the address of
// that proxy is added. Headers from any other peer are not believed. The application, whose peer is this proxy, must not believe
// them either, so everything that names a client, a host or a scheme is removed and written from scratch.
func (p *Proxy) forward(r *httputil.ProxyRequest) {
	in, out := r.In.Header, r.Out.Header
	peer, _ := clientip.Parse(r.In.RemoteAddr)
	trusted, _ := p.gate.Trusts(peer)
	p.dropSpoofable(out, trusted)
	p.dropSpoofable(r.Out.Trailer, trusted) // announced trailers; the others arrive at the end of the body
	if state, ok := r.In.Context().Value(requestStateKey{}).(*requestState); ok && state.body != nil {
		state.body.atEnd = func() { p.dropSpoofable(r.Out.Trailer, trusted) }
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
