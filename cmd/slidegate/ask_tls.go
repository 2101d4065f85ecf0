package main

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"os"
	"strings"
	"time"

	"github.com/slidegate/slidegate/cmd/slidegate/internal/listen"
)

// serverTLS says whom to believe that it is the service, and how to show the service who asks.
type serverTLS struct {
	CA       string `name:"ca" placeholder:"FILE" help:"The authority that signed the service's certificate, in PEM form. SSL_CERT_FILE names one for all programs. (default: the system's)" group:"Whom to ask"`
	CertFile string `name:"cert" placeholder:"FILE" help:"The certificate to show a service that asks for one (--tls-client-ca), in PEM form." group:"Whom to ask"`
	KeyFile  string `name:"key" placeholder:"FILE" help:"Its key." group:"Whom to ask"`
	Insecure bool   `help:"Do not check the service's certificate: anyone on the way can read the token and answer." group:"Whom to ask"`
}

// config reads the files; nil means that nothing was said.
func (s *serverTLS) config() (*tls.Config, error) {
	switch {
	case *s == serverTLS{}:
		return nil, nil
	case s.CA != "" && s.Insecure:
		return nil, errors.New("--insecure: nothing is checked then, so that --ca has no effect: leave one out")
	case s.CertFile == "" && s.KeyFile != "":
		return nil, errors.New("--key: a key needs the certificate that it belongs to: add --cert FILE")
	case s.CertFile != "" && s.KeyFile == "":
		return nil, errors.New("--cert: a certificate needs its key: add --key FILE")
	}
	c := &tls.Config{MinVersion: tls.VersionTLS12, InsecureSkipVerify: s.Insecure}
	if s.CA != "" {
		text, err := os.ReadFile(s.CA)
		if err != nil {
			return nil, inFlag("--ca", err)
		}
		if c.RootCAs = x509.NewCertPool(); !c.RootCAs.AppendCertsFromPEM(text) {
			return nil, fmt.Errorf("--ca: %s has no certificates in PEM form", s.CA)
		}
	}
	if s.CertFile != "" {
		pair, err := tls.LoadX509KeyPair(s.CertFile, s.KeyFile)
		if err != nil {
			return nil, inFlag("--cert, --key", err)
		}
		c.Certificates = []tls.Certificate{pair}
	}
	return c, nil
}

// answerTime is how long the service may take to answer.
const answerTime = 10 * time.Second

// newClient returns a client of the service at a URL, or at unix:/path.
func newClient(base, token string, secure serverTLS) (*client, error) {
	config, err := secure.config()
	if err != nil {
		return nil, err
	}
	transport := http.DefaultTransport.(*http.Transport).Clone()
	c := &client{base: strings.TrimRight(base, "/"), token: token, http: http.Client{Timeout: answerTime, Transport: transport}}
	c.root = c.base
	transport.TLSClientConfig = c.noting(config)
	if path := listen.Path(base); path != "" {
		c.root = "http://localhost"
		transport.DialContext = func(ctx context.Context, _, _ string) (net.Conn, error) {
			return (&net.Dialer{}).DialContext(ctx, "unix", path)
		}
		return c, nil
	}
	u, err := url.Parse(base)
	if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
		return nil, fmt.Errorf("--server: %q is not the URL of a service, such as http://127.0.0.1:8080, nor unix:/path", base)
	}
	if config != nil && u.Scheme == "http" {
		return nil, fmt.Errorf("--server: %s is asked without TLS, so that --ca, --cert, --key and --insecure have no effect: write https://", base)
	}
	return c, nil
}

// noting returns a configuration that notes whether the service asks for a certificate. If it does not like the one that it gets,
// it closes the connection, and its reason may be lost on the way.
func (c *client) noting(given *tls.Config) *tls.Config {
	config := &tls.Config{MinVersion: tls.VersionTLS12}
	if given != nil {
		config = given.Clone()
	}
	own := &tls.Certificate{}
	if len(config.Certificates) > 0 {
		own = &config.Certificates[0]
	}
	config.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) {
		c.certificateWanted.Store(true)
		return own, nil
	}
	return config
}

// failed returns why the service could not be asked, and what to do about it.
func (c *client) failed(err error) error {
	var wrapped *url.Error
	if errors.As(err, &wrapped) {
		err = wrapped.Err
	}
	advice := c.adviceOn(err)
	if advice == "" {
		return fmt.Errorf("--server: %s: %w", c.base, err)
	}
	return fmt.Errorf("--server: %s: %w; %s", c.base, err, advice)
}

// adviceOn returns what to do about an error; empty if it is not known.
func (c *client) adviceOn(err error) string {
	var (
		network   *net.OpError
		name      x509.HostnameError
		unchecked *tls.CertificateVerificationError
		record    tls.RecordHeaderError
	)
	switch {
	case errors.As(err, &name):
		return "ask for it by a name that is in its certificate, or with --insecure check nothing"
	case errors.As(err, &unchecked):
		return "--ca FILE names the authority that signed its certificate, and so does SSL_CERT_FILE; --insecure checks nothing"
	case errors.As(err, &record), errors.Is(err, http.ErrSchemeMismatch):
		return "there is no TLS at that address: ask http" + strings.TrimPrefix(c.base, "https")
	case errors.As(err, &network) && network.Op == "dial":
		return "is the service running? slidegate serve starts one"
	case c.certificateWanted.Load() && !os.IsTimeout(err):
		return "the service wants a client's certificate that its --tls-client-ca has signed: add --cert FILE and --key FILE"
	}
	return ""
}
