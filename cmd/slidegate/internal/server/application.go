package server

import (
	"context"
	"crypto/tls"
	"net/http"

	addresses "github.com/slidegate/slidegate/cmd/slidegate/internal/listen"
	"github.com/slidegate/slidegate/cmd/slidegate/internal/proxy"
)

// openApplication creates the proxy to the application, if Options.Proxy is set.
func (s *Server) openApplication() (err error) {
	if s.opts.Proxy == "" {
		return nil
	}
	o := s.opts.Application
	o.Trusted, o.Logger = s.opts.File.Service.TrustedProxies, s.log
	s.proxy, err = proxy.New(s.gate, o)
	return err
}

// openProxy prepares the listener of the proxy. It checks neither the host nor a token: both are up to the application.
func (s *Server) openProxy(ln *listener, secure *tls.Config) error {
	server := s.proxy.NewServer(secure, func(next http.Handler) http.Handler {
		return ln.requests.http(addresses.CloseWhenDraining(s.drained, s.telemetry.traced(next)))
	})
	server.ConnState(ln.conns.ConnState)
	ln.serve = server.Serve
	ln.stop = func(ctx context.Context) error {
		ln.conns.Settle(ctx)
		return server.Shutdown(ctx)
	}
	return nil
}

// rejection returns why the proxy, or the check of requests for other proxies, rejects a request before the policies see it, or "".
func (s *Server) rejection(r *http.Request) string {
	if s.proxy != nil {
		return s.proxy.Rejection(r)
	}
	return s.forward.Rejection(r)
}
