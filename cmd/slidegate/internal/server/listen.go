package server

import (
	"crypto/tls"
	"crypto/x509"
	"net"
	"os"
	"sync"
	"sync/atomic"

	addresses "github.com/slidegate/slidegate/cmd/slidegate/internal/listen"
)

// listen opens the address of an option for at most so many connections at once.
func listen(option, address string, most int) (*bounded, error) {
	inner, err := addresses.Listen(address)
	if err != nil {
		return nil, invalid(option, "%w", err)
	}
	return &bounded{Listener: inner, most: int64(most)}, nil
}

// bounded is a listener that holds a number of connections and closes those beyond it, so that one client who opens many
// cannot use up what the process may open.
type bounded struct {
	net.Listener
	most    int64
	open    atomic.Int64
	refused atomic.Int64
}

// Accept waits for a connection for which there is room.
func (b *bounded) Accept() (net.Conn, error) {
	for {
		conn, err := b.Listener.Accept()
		if err != nil {
			return nil, err
		}
		if b.open.Add(1) <= b.most {
			return &counted{Conn: conn, door: b}, nil
		}
		b.open.Add(-1)
		b.refused.Add(1)
		_ = conn.Close()
	}
}

// counted is a connection that makes room when it is closed.
type counted struct {
	net.Conn
	door   *bounded
	closed sync.Once
}

// Close closes the connection.
func (c *counted) Close() error {
	c.closed.Do(func() { c.door.open.Add(-1) })
	return c.Conn.Close()
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
