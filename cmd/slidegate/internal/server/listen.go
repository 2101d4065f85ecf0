package server

import (
	"crypto/tls"
	"crypto/x509"
	"net/netip"
	"os"

	"github.com/slidegate/slidegate/cmd/slidegate/internal/connlimit"
	addresses "github.com/slidegate/slidegate/cmd/slidegate/internal/listen"
)

// socket opens the address of a listener, or returns the socket that was passed in for it.
func (s *Server) socket(name, option, address string) (*addresses.Listener, error) {
	if inherited := s.opts.Sockets[name]; inherited != nil {
		return addresses.Inherited(inherited), nil
	}
	opened, err := addresses.Options{ReusePort: s.opts.ReusePort, Mode: s.opts.SocketMode}.Open(address)
	if err != nil {
		return nil, invalid(option, "%w", err)
	}
	return opened, nil
}

// bound applies the connection limits to a socket.
func (s *Server) bound(socket *addresses.Listener) *connlimit.Listener {
	return connlimit.New(socket, connlimit.Options{
		Max: s.opts.MaxConnections, MaxPerAddress: s.opts.MaxConnectionsPerAddress,
		Exempt: func(addr netip.Addr) bool { return connlimit.IsProxy(s.forward.Trusted(), addr) },
	})
}

// Config reads the files of t; it returns nil if there are none.
func (t TLS) Config() (*tls.Config, error) {
	if err := t.validate(); err != nil || t.Cert == "" {
		return nil, err
	}
	cert, err := os.ReadFile(t.Cert)
	if err != nil {
		return nil, invalid("TLS.Cert", "%w", err)
	}
	key, err := os.ReadFile(t.Key)
	if err != nil {
		return nil, invalid("TLS.Key", "%w", err)
	}
	pair, err := tls.X509KeyPair(cert, key)
	if err != nil {
		return nil, invalid("TLS.Cert", "%s and %s: %w", t.Cert, t.Key, err)
	}
	c := &tls.Config{Certificates: []tls.Certificate{pair}, MinVersion: tls.VersionTLS12}
	if t.ClientCA != "" {
		text, err := os.ReadFile(t.ClientCA)
		if err != nil {
			return nil, invalid("TLS.ClientCA", "%w", err)
		}
		c.ClientCAs = x509.NewCertPool()
		if !c.ClientCAs.AppendCertsFromPEM(text) {
			return nil, invalid("TLS.ClientCA", "%s has no certificates in PEM form", t.ClientCA)
		}
		c.ClientAuth = tls.RequireAndVerifyClientCert
	}
	return c, nil
}
