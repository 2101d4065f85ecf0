package server

import (
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"strconv"
	"strings"

	"github.com/slidegate/slidegate/cmd/slidegate/internal/problemjson"
	"github.com/slidegate/slidegate/cmd/slidegate/internal/server/forward"
)

// onLoopback reports whether only this machine can reach what listens at an address.
func onLoopback(at net.Addr) bool {
	tcp, ok := at.(*net.TCPAddr)
	return !ok || tcp.IP.IsLoopback() // what is not TCP is a Unix socket
}

// warnIfOpen logs that a listener can be reached from outside and asks nobody for a token or a certificate.
// Metrics hold no keys and change nothing, and an application has clients of its own: those listeners are meant to be open.
func (s *Server) warnIfOpen(d *door) {
	if d.name == "admin" && !onLoopback(d.listener.Addr()) && s.admins.none() && s.NeedsToken() {
		s.log.Warn("the admin listener can be reached from outside with the tokens of clients: anybody who has one can read and change what others use; "+
			"set --admin-tokens-file, or listen on 127.0.0.1", slog.String("door", d.name))
	}
	if d.name == "admin" && !s.admins.none() {
		return
	}
	if d.name == "metrics" || d.name == "proxy" || s.NeedsToken() || s.opts.TLS.ClientCA != "" || onLoopback(d.listener.Addr()) {
		return
	}
	s.log.Warn("the listener can be reached from outside and asks for no token: whoever reaches it can use up and give back anybody's quota; "+
		"set --tokens-file, or listen on 127.0.0.1", slog.String("door", d.name))
}

// hostless are the paths that answer under any Host. Load balancers ask the first three. The last is asked by proxies, which pass
// the Host of the request on that they ask about, and whom it trusts for other reasons.
var hostless = map[string]bool{"/healthz": true, "/readyz": true, "/healthcheck": true, forward.Path: true}

// checkHost has a listener on loopback answer only under names of this machine, unless it asks for tokens. A web page can have the
// name of its own server point to 127.0.0.1, and its browser then takes our answers for those of that server: the Host is what gives
// it away. No name points to a Unix socket, and those who connect to one write any Host.
func (s *Server) checkHost(at net.Addr, next http.Handler) http.Handler {
	if s.NeedsToken() || at.Network() == "unix" || !onLoopback(at) {
		return next
	}
	allowed := map[string]bool{"localhost": true}
	for _, name := range s.opts.AllowedHosts {
		allowed[plainHost(name)] = true
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if host := plainHost(r.Host); !allowed[host] && !isLoopbackIP(host) && !hostless[r.URL.Path] {
			problemjson.Document{
				Status: http.StatusMisdirectedRequest,
				Detail: "the Host of the request is not a name of this machine; ask localhost or 127.0.0.1, name the host in --allowed-hosts, or set tokens",
			}.Send(w)
			return
		}
		next.ServeHTTP(w, r)
	})
}

// plainHost returns a host without its port, without the brackets of IPv6 and without a dot at its end, in lower case. It is
// stricter than httplimit.CanonicalHost: what only begins like a name of this machine, such as localhost:evil.example, stays as it is.
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
