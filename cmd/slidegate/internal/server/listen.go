package server

import (
	"crypto/tls"
	"crypto/x509"
	"net/netip"
	"os"

	"github.com/slidegate/slidegate/cmd/slidegate/internal/connlimit"
	addresses "github.com/slidegate/slidegate/cmd/slidegate/internal/listen"
)

// listen opens the address of an option, within the bounds of connections.
func (s *Server) listen(option, address string) (*connlimit.Listener, error) {
	inner, err := addresses.Listen(address)
	if err != nil {
		return nil, invalid(option, "%w", err)
	}
	return connlimit.New(inner, connlimit.Options{
		Max: s.opts.MaxConnections, MaxPerAddress: s.opts.MaxConnectionsPerAddress,
		Exempt: func(addr netip.Addr) bool { return connlimit.IsProxy(s.forward.Trusted(), addr) },
	}), nil
}

// Config reads the files of t; nil if there are none.
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
