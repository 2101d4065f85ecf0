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

// serverTLS configures how the service is verified, and how this client identifies itself.
type serverTLS struct {
	CA       string `name:"ca" placeholder:"FILE" help:"CA certificate to verify the service with, as PEM. SSL_CERT_FILE sets it for all programs. (default: the system's CAs)" group:"Service"`
	CertFile string `name:"cert" placeholder:"FILE" help:"Client certificate, as PEM, for a service that requires one (--tls-client-ca)." group:"Service"`
	KeyFile  string `name:"key" placeholder:"FILE" help:"Private key of the client certificate, as PEM." group:"Service"`
	Insecure bool   `help:"Do not verify the service's certificate: anyone on the network path can read the token and forge responses." group:"Service"`
}

// config reads the files; it returns nil if no flag is given.
func (s *serverTLS) config() (*tls.Config, error) {
	switch {
	case *s == serverTLS{}:
		return nil, nil
	case s.CA != "" && s.Insecure:
		return nil, errors.New("--insecure: disables verification, so --ca would have no effect; leave one out")
	case s.CertFile == "" && s.KeyFile != "":
		return nil, errors.New("--key: needs the certificate that the key belongs to; add --cert FILE")
	case s.CertFile != "" && s.KeyFile == "":
		return nil, errors.New("--cert: needs the key of the certificate; add --key FILE")
	}
	c := &tls.Config{MinVersion: tls.VersionTLS12, InsecureSkipVerify: s.Insecure}
	if s.CA != "" {
		text, err := os.ReadFile(s.CA)
		if err != nil {
			return nil, inFlag("--ca", err)
		}
		if c.RootCAs = x509.NewCertPool(); !c.RootCAs.AppendCertsFromPEM(text) {
			return nil, fmt.Errorf("--ca: %s contains no PEM certificates", s.CA)
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

// requestTimeout is the timeout of a request.
const requestTimeout = 10 * time.Second

// newClient returns a client for the service at a URL, or at unix:/path.
func newClient(base, token string, secure serverTLS) (*client, error) {
	config, err := secure.config()
	if err != nil {
		return nil, err
	}
	transport := http.DefaultTransport.(*http.Transport).Clone()
	c := &client{base: strings.TrimRight(base, "/"), token: token, http: http.Client{Timeout: requestTimeout, Transport: transport}}
	c.root = c.base
	transport.TLSClientConfig = c.recordCertificateRequest(config)
	if path := listen.Path(base); path != "" {
		c.root = "http://localhost"
		transport.DialContext = func(ctx context.Context, _, _ string) (net.Conn, error) {
			return (&net.Dialer{}).DialContext(ctx, "unix", path)
		}
		return c, nil
	}
	u, err := url.Parse(base)
	if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
		return nil, fmt.Errorf("--server: invalid URL %q; want a URL such as http://127.0.0.1:8080, or unix:/path", base)
	}
	if config != nil && u.Scheme == "http" {
		return nil, fmt.Errorf("--server: %s does not use TLS, so --ca, --cert, --key and --insecure have no effect; write https://", base)
	}
	return c, nil
}

// recordCertificateRequest returns a configuration that records whether the service requests a client certificate. A service that
// rejects the certificate closes the connection, and its reason may be lost on the way.
func (c *client) recordCertificateRequest(given *tls.Config) *tls.Config {
	config := &tls.Config{MinVersion: tls.VersionTLS12}
	if given != nil {
		config = given.Clone()
	}
	own := &tls.Certificate{}
	if len(config.Certificates) > 0 {
		own = &config.Certificates[0]
	}
	config.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) {
		c.certificateRequested.Store(true)
		return own, nil
	}
	return config
}

// requestError returns the error of a request that could not be sent, with advice on what to do.
func (c *client) requestError(err error) error {
	var wrapped *url.Error
	if errors.As(err, &wrapped) {
		err = wrapped.Err
	}
	advice := c.advice(err)
	if advice == "" {
		return fmt.Errorf("--server: %s: %w", c.base, err)
	}
	return fmt.Errorf("--server: %s: %w; %s", c.base, err, advice)
}

// advice returns what to do about an error, or "" if nothing is known to help.
func (c *client) advice(err error) string {
	var (
		network    *net.OpError
		name       x509.HostnameError
		unverified *tls.CertificateVerificationError
		record     tls.RecordHeaderError
	)
	switch {
	case errors.As(err, &name):
		return "use a host name that is in its certificate, or --insecure to skip verification"
	case errors.As(err, &unverified):
		return "give the CA of its certificate with --ca FILE or SSL_CERT_FILE, or use --insecure to skip verification"
	case errors.As(err, &record), errors.Is(err, http.ErrSchemeMismatch):
		return "the server does not use TLS; use http" + strings.TrimPrefix(c.base, "https")
	case errors.As(err, &network) && network.Op == "dial":
		return "is the service running? slidegate serve starts one"
	case c.certificateRequested.Load() && !os.IsTimeout(err):
		return "the service requires a client certificate signed by its --tls-client-ca; add --cert FILE and --key FILE"
	}
	return ""
}
