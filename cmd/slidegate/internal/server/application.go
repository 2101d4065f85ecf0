package server

import (
	"context"
	"crypto/tls"
	"net/http"

	addresses "github.com/slidegate/slidegate/cmd/slidegate/internal/listen"
	"github.com/slidegate/slidegate/cmd/slidegate/internal/proxy"
)

// openApplication makes what passes requests on to the application, if that is asked for.
func (s *Server) openApplication() (err error) {
	if s.opts.Proxy == "" {
		return nil
	}
	o := s.opts.Application
	o.Trusted, o.Logger = s.opts.File.Service.TrustedProxies, s.log
	s.proxy, err = proxy.New(s.gate, o)
	return err
}

// openProxy opens the door to the application. Its host is not checked and no token is asked for: both are the application's matter.
func (s *Server) openProxy(d *door, secure *tls.Config) error {
	server := s.proxy.NewServer(secure, func(passes http.Handler) http.Handler {
		return d.requests.http(addresses.LastAnswers(s.drained, s.telemetry.traced(passes)))
	})
	server.ConnState(d.listener.ConnState)
	d.serve = server.Serve
	d.stop = func(ctx context.Context) error {
		d.listener.Settle(ctx)
		return server.Shutdown(ctx)
	}
	return nil
}
