package service

import (
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"strconv"
	"strings"

	"github.com/slidegate/slidegate/cmd/slidegate/internal/gate/problemjson"
	"github.com/slidegate/slidegate/cmd/slidegate/internal/listener/forward"
	addresses "github.com/slidegate/slidegate/cmd/slidegate/internal/service/listen"
)

// isLoopback reports whether only this machine can reach an address.
func isLoopback(address string) bool {
	if addresses.IsUnix(address) {
		return true
	}
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		return false
	}
	return host == "localhost" || isLoopbackIP(host)
}

// warnIfOpen logs a warning if a listener can be reached from outside and requires neither a token nor a certificate.
// The metrics and proxy listeners are meant to be open: metrics contain no keys and change nothing, and the application
// authenticates its own clients.
func (s *Server) warnIfOpen(ln *listener) {
	if ln.name == "admin" && !isLoopback(addresses.Text(ln.conns.Addr())) && s.admins.empty() && s.NeedsToken() {
		s.log.Warn("the admin listener can be reached from outside with client tokens: any client can read and change the quota of others; "+
			"set --admin-tokens-file, or listen on 127.0.0.1", slog.String("listener", ln.name))
	}
	if ln.name == "admin" && !s.admins.empty() {
		return
	}
	if ln.name == "metrics" || ln.name == "proxy" || s.NeedsToken() || s.opts.TLS.ClientCA != "" || isLoopback(addresses.Text(ln.conns.Addr())) {
		return
	}
	s.log.Warn("the listener can be reached from outside and requires no token: anyone who reaches it can use up or refund the quota of others; "+
		"set --tokens-file, or listen on 127.0.0.1", slog.String("listener", ln.name))
}

// anyHost lists the paths that are served under any Host. Load balancers request the first three. Proxies request the last
// one with the Host of the request to be checked; forward-auth checks by other means whether they are trusted.
var anyHost = map[string]bool{"/healthz": true, "/readyz": true, "/healthcheck": true, forward.Path: true}

// checkHost makes a listener on loopback answer only requests for names of this machine, unless it requires tokens. A web page
// can point the name of its own server to 127.0.0.1, and the browser then treats our responses as that server's; the Host header
// reveals this. No name points to a Unix socket, and clients of one may send any Host.
func (s *Server) checkHost(at net.Addr, next http.Handler) http.Handler {
	if s.NeedsToken() || at.Network() == "unix" || !isLoopback(addresses.Text(at)) {
		return next
	}
	allowed := map[string]bool{"localhost": true}
	for _, name := range s.opts.AllowedHosts {
		allowed[plainHost(name)] = true
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if host := plainHost(r.Host); !allowed[host] && !isLoopbackIP(host) && !anyHost[r.URL.Path] {
			problemjson.Document{
				Status: http.StatusMisdirectedRequest,
				Detail: "the Host of the request is not a name of this machine; use localhost or 127.0.0.1, name the host in --allowed-hosts, or set tokens",
			}.Send(w)
			return
		}
		next.ServeHTTP(w, r)
	})
}

// plainHost returns a host in lower case, without its port, the brackets of IPv6 and a trailing dot. It is stricter than
// match.CanonicalHost: a host that only begins like a name of this machine, such as localhost:evil.example, is left unchanged.
func plainHost(host string) string {
	if name, port, err := net.SplitHostPort(host); err == nil {
		if _, err := strconv.ParseUint(port, 10, 16); err == nil {
			host = name
		}
	}
	host = strings.TrimSuffix(strings.TrimPrefix(host, "["), "]")
	return strings.ToLower(strings.TrimSuffix(host, "."))
}

func isLoopbackIP(host string) bool {
	addr, err := netip.ParseAddr(host)
	return err == nil && addr.Unmap().IsLoopback()
}
