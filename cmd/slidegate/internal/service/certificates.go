package service

import (
	"crypto/tls"
	"crypto/x509"
	"os"
	"slices"
	"sync/atomic"
	"time"
)

// certificates holds the files of a TLS as last read. It is safe for concurrent use; nil means no TLS.
type certificates struct {
	files   TLS
	current atomic.Pointer[tls.Config]
}

func newCertificates(files TLS) (*certificates, error) {
	read, err := files.Config()
	if err != nil || read == nil {
		return nil, err
	}
	c := &certificates{files: files}
	c.current.Store(read)
	return c, nil
}

// config returns the TLS configuration of a listener that offers these protocols. Each handshake uses the files as last read.
func (c *certificates) config(protocols ...string) *tls.Config {
	if c == nil {
		return nil
	}
	return &tls.Config{
		MinVersion: tls.VersionTLS12, NextProtos: protocols,
		GetConfigForClient: func(*tls.ClientHelloInfo) (*tls.Config, error) {
			current := c.current.Load().Clone()
			current.NextProtos = protocols
			return current, nil
		},
	}
}

// reload reads the files again. On an error, the previous certificates stay in force.
func (c *certificates) reload() (changed bool, err error) {
	if c == nil {
		return false, nil
	}
	read, err := c.files.Config()
	if err != nil {
		return false, err
	}
	previous := c.current.Swap(read)
	same := slices.EqualFunc(previous.Certificates, read.Certificates, func(a, b tls.Certificate) bool {
		return slices.EqualFunc(a.Certificate, b.Certificate, slices.Equal)
	})
	return !same || !previous.ClientCAs.Equal(read.ClientCAs), nil
}

// paths returns the files that are set.
func (t TLS) paths() []string {
	return slices.DeleteFunc([]string{t.Cert, t.Key, t.ClientCA}, func(path string) bool { return path == "" })
}

// expires returns when the certificate in use expires.
func (c *certificates) expires() time.Time { return c.current.Load().Certificates[0].Leaf.NotAfter }

// TLS names the files of a server's certificate. The zero value means no TLS.
type TLS struct {
	Cert string `option:"service.TLS.Cert" placeholder:"FILE" help:"Server certificate, as PEM." group:"Security"`
	Key  string `option:"service.TLS.Key" placeholder:"FILE" help:"Private key of the server certificate, as PEM." group:"Security"`
	// ClientCA has the authorities that must have issued clients' certificates; empty means that clients need no certificate.
	ClientCA string `option:"service.TLS.ClientCA" name:"client-ca" placeholder:"FILE" help:"CA certificate that client certificates must be signed by, as PEM. Without it, clients need no certificate." group:"Security"`
}

func (t TLS) validate() error {
	switch {
	case t.Cert == "" && t.Key != "":
		return invalid("TLS.Cert", "is missing; give the certificate that the key belongs to")
	case t.Cert != "" && t.Key == "":
		return invalid("TLS.Key", "is missing; give the key of the certificate")
	case t.Cert == "" && t.ClientCA != "":
		return invalid("TLS.ClientCA", "client certificates need TLS; give a certificate and its key")
	}
	return nil
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
