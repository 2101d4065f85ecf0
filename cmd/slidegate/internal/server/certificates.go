package server

import (
	"crypto/tls"
	"log/slog"
	"slices"
	"sync/atomic"
)

// certificates are the files of a TLS, as they were last read. They are safe for concurrent use; nil means that there is no TLS.
type certificates struct {
	files TLS
	now   atomic.Pointer[tls.Config]
}

func newCertificates(files TLS) (*certificates, error) {
	read, err := files.Config()
	if err != nil || read == nil {
		return nil, err
	}
	c := &certificates{files: files}
	c.now.Store(read)
	return c, nil
}

// config returns what a listener needs whose clients may speak these protocols. Each handshake uses the files as they were last read.
func (c *certificates) config(protocols ...string) *tls.Config {
	if c == nil {
		return nil
	}
	return &tls.Config{
		MinVersion: tls.VersionTLS12, NextProtos: protocols,
		GetConfigForClient: func(*tls.ClientHelloInfo) (*tls.Config, error) {
			now := c.now.Load().Clone()
			now.NextProtos = protocols
			return now, nil
		},
	}
}

// reload reads the files again. On an error, what was read before stays in force.
func (c *certificates) reload() (changed bool, err error) {
	if c == nil {
		return false, nil
	}
	read, err := c.files.Config()
	if err != nil {
		return false, err
	}
	was := c.now.Swap(read)
	same := slices.EqualFunc(was.Certificates, read.Certificates, func(a, b tls.Certificate) bool {
		return slices.EqualFunc(a.Certificate, b.Certificate, slices.Equal)
	})
	return !same || !was.ClientCAs.Equal(read.ClientCAs), nil
}

// paths are the files that there are.
func (t TLS) paths() []string {
	return slices.DeleteFunc([]string{t.Cert, t.Key, t.ClientCA}, func(path string) bool { return path == "" })
}

// tell logs what became of a reload.
func (c *certificates) tell(log *slog.Logger, changed bool, err error) {
	switch {
	case err != nil:
		log.Error("certificates not reloaded; the old ones stay in use", slog.Any("error", err))
	case changed:
		log.Info("certificates reloaded", slog.Time("expires", c.now.Load().Certificates[0].Leaf.NotAfter))
	}
}
