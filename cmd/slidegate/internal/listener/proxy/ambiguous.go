package proxy

import (
	"net/http"
	"strings"

	"github.com/slidegate/slidegate/cmd/slidegate/internal/gate"
	"github.com/slidegate/slidegate/cmd/slidegate/internal/gate/problemjson"
)

// ambiguous returns the response to a request that servers read in different ways, or nil. The gate matches every reading that it
// knows, but the application may have one of its own, so such requests are not forwarded unless the operator allows it.
func (p *Proxy) ambiguous(r *http.Request) *problemjson.Document {
	if p.opts.AllowAmbiguous {
		return nil
	}
	var what string
	switch name := p.gate.AmbiguousHeader(r); {
	case beginsLikeHost(r):
		what = `The target of the request begins with // or /\, after which some servers expect a host.`
	case strings.Contains(r.RequestURI, "#"):
		what = "The target of the request contains a #, at which some servers cut it."
	case r.Method != strings.ToUpper(r.Method):
		what = "The method has small letters, which some servers treat as capitals."
	case name != "":
		what = "The request has more than one line of " + name + ", of which servers use different ones."
	default:
		return nil
	}
	return &problemjson.Document{Status: http.StatusBadRequest, Detail: what + " --allow-ambiguous forwards such requests."}
}

// beginsLikeHost reports whether a path begins with two slashes or with a slash and a backslash. An encoded slash is not one for the
// servers that expect a host there, and is part of the names of objects in signed URLs.
func beginsLikeHost(r *http.Request) bool {
	raw := r.URL.RawPath
	if raw == "" {
		raw = r.URL.Path
	}
	return strings.HasPrefix(raw, "//") || strings.HasPrefix(r.URL.Path, `/\`)
}

// dropOdd removes headers whose names have anything but letters, digits and hyphens. Applications that follow CGI treat X_Api_Key
// and, in PHP, X.Api.Key as X-Api-Key, so one of these could replace the header that the client is counted by. nginx removes such
// headers too. If ambiguous requests are allowed, only other spellings of the headers that the policies use are removed.
func (p *Proxy) dropOdd(h http.Header) {
	var buf [64]byte
	for name := range h {
		if plain, odd := gate.PlainName(buf[:0], name); odd && (!p.opts.AllowAmbiguous || p.gate.HasHeader(string(plain))) {
			delete(h, name)
		}
	}
}
