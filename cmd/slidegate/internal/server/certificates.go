package server

import (
	"crypto/tls"
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
