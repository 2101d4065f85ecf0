package main

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/slidegate/slidegate/cmd/slidegate/internal/service/listen"
)

// client sends requests to a running service.
type client struct {
	flag  string // the flag that gives base
	base  string // as given by the user
	root  string // prefix of all paths
	token string
	http  http.Client

	certificateRequested atomic.Bool // the service requested a client certificate in a handshake
}

// maxResponse bounds what is read of a response; the largest is a list of all rulings.
const maxResponse = 64 << 20

// send sends one request and returns the status and the body of the response. A nil body sends none.
func (c *client) send(ctx context.Context, method, path string, body any) (int, []byte, error) {
	var text []byte
	var err error
	if body != nil {
		if text, err = json.Marshal(body); err != nil {
			return 0, nil, err
		}
	}
	r, err := http.NewRequestWithContext(ctx, method, c.root+path, bytes.NewReader(text))
	if err != nil {
		return 0, nil, err
	}
	if body != nil {
		r.Header.Set("Content-Type", "application/json")
	}
	if c.token != "" {
		r.Header.Set("Authorization", "Bearer "+c.token)
	}
	response, err := c.http.Do(r)
	if err != nil {
		return 0, nil, c.requestError(err)
	}
	defer response.Body.Close()
	text, err = io.ReadAll(io.LimitReader(response.Body, maxResponse))
	return response.StatusCode, text, err
}

// problem returns the error that a response of the service describes.
func (c *client) problem(status int, path string, text []byte) error {
	found := parseProblem(text)
	decides := slices.Contains([]string{"/v1/allow", "/v1/peek", "/v1/charge"}, path)
	switch {
	case status == http.StatusNotFound && found.Field == "" && !decides: // a 404 that names no field is about the path
		return fmt.Errorf("%s: %s is not the admin listener of a service; use its address, which is %s by default", c.flag, c.base, adminURL)
	case strings.HasSuffix(found.Type, "#temporary-reduced-capacity"):
		return fmt.Errorf("%s: %s The store does not answer, and failure mode closed refuses all requests", c.base, found)
	case status == http.StatusUnauthorized && found.Detail != "":
		return fmt.Errorf("%s: %s (--token TOKEN, or SLIDEGATE_TOKEN)", c.base, found)
	case found.Detail != "":
		return fmt.Errorf("%s: %s", c.base, found)
	case status == http.StatusBadRequest && bytes.Contains(text, []byte("HTTPS server")): // the response of net/http to a request without TLS
		return fmt.Errorf("%s: %s requires TLS; use https%s", c.flag, c.base, strings.TrimPrefix(c.base, "http"))
	}
	return fmt.Errorf("%s: unexpected response: %d %s%s", c.base, status, http.StatusText(status), proxyHint(path))
}

// proxyHint names the admin listener, for a response that may be from the application behind a proxy.
func proxyHint(path string) string {
	if path != "/v1/peek" {
		return ""
	}
	return "; if this is a slidegate proxy, use its admin listener: --server " + adminURL
}

// problem is an error response of the service, in the form of RFC 9457.
type problem struct{ Type, Detail, Field string }

// parseProblem parses a problem; the result is empty if the text is not a problem.
func parseProblem(text []byte) (p problem) {
	_ = json.Unmarshal(text, &p)
	return p
}

// String returns the detail, after the field that is wrong, if any.
func (p problem) String() string {
	if p.Field != "" {
		return p.Field + ": " + p.Detail
	}
	return p.Detail
}

// adminURL is the default admin listener of a service.
const adminURL = "http://127.0.0.1:8082"

// serverTLS configures how the service is verified, and how this client identifies itself.
type serverTLS struct {
	CA       string `name:"tls-ca" placeholder:"FILE" help:"CA certificate to verify the service with, as PEM. SSL_CERT_FILE sets it for all programs. (default: the system's CAs)" group:"Service"`
	CertFile string `name:"tls-cert" placeholder:"FILE" help:"Client certificate, as PEM, for a service that requires one (--tls-client-ca)." group:"Service"`
	KeyFile  string `name:"tls-key" placeholder:"FILE" help:"Private key of the client certificate, as PEM." group:"Service"`
	Insecure bool   `help:"Do not verify the service's certificate: anyone on the network path can read the token and forge responses." group:"Service"`
}

// config reads the files; it returns nil if no flag is given.
func (s *serverTLS) config() (*tls.Config, error) {
	switch {
	case *s == serverTLS{}:
		return nil, nil
	case s.CA != "" && s.Insecure:
		return nil, errors.New("--insecure: disables verification, so --tls-ca would have no effect; leave one out")
	case s.CertFile == "" && s.KeyFile != "":
		return nil, errors.New("--tls-key: needs the certificate that the key belongs to; add --tls-cert FILE")
	case s.CertFile != "" && s.KeyFile == "":
		return nil, errors.New("--tls-cert: needs the key of the certificate; add --tls-key FILE")
	}
	c := &tls.Config{MinVersion: tls.VersionTLS12, InsecureSkipVerify: s.Insecure}
	if s.CA != "" {
		text, err := os.ReadFile(s.CA)
		if err != nil {
			return nil, inFlag("--tls-ca", err)
		}
		if c.RootCAs = x509.NewCertPool(); !c.RootCAs.AppendCertsFromPEM(text) {
			return nil, fmt.Errorf("--tls-ca: %s contains no PEM certificates", s.CA)
		}
	}
	if s.CertFile != "" {
		pair, err := tls.LoadX509KeyPair(s.CertFile, s.KeyFile)
		if err != nil {
			return nil, inFlag("--tls-cert, --tls-key", err)
		}
		c.Certificates = []tls.Certificate{pair}
	}
	return c, nil
}

// requestTimeout is the timeout of a request.
const requestTimeout = 10 * time.Second

// newClient returns a client for the service at a URL, or at unix:/path, which the flag gives.
func newClient(flag, base, token string, secure serverTLS) (*client, error) {
	config, err := secure.config()
	if err != nil {
		return nil, err
	}
	transport := http.DefaultTransport.(*http.Transport).Clone()
	c := &client{flag: flag, base: strings.TrimRight(base, "/"), token: token, http: http.Client{Timeout: requestTimeout, Transport: transport}}
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
		if _, _, err := net.SplitHostPort(base); err == nil {
			return nil, fmt.Errorf("%s: invalid URL %q: it has no scheme; write http://%s", flag, base, base)
		}
		return nil, fmt.Errorf("%s: invalid URL %q; want a URL with its scheme and port, such as http://HOST:PORT, or unix:/path", flag, base)
	}
	if config != nil && u.Scheme == "http" {
		return nil, fmt.Errorf("%s: %s does not use TLS, so --tls-ca, --tls-cert, --tls-key and --insecure have no effect; write https://", flag, base)
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
		return fmt.Errorf("%s: %s: %w", c.flag, c.base, err)
	}
	return fmt.Errorf("%s: %s: %w; %s", c.flag, c.base, err, advice)
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
		return "give the CA of its certificate with --tls-ca FILE or SSL_CERT_FILE, or use --insecure to skip verification"
	case errors.As(err, &record), errors.Is(err, http.ErrSchemeMismatch):
		return "the server does not use TLS; use http" + strings.TrimPrefix(c.base, "https")
	case errors.As(err, &network) && network.Op == "dial":
		return "is the service running? slidegate serve starts one"
	case c.certificateRequested.Load() && !os.IsTimeout(err):
		return "the service requires a client certificate signed by its --tls-client-ca; add --tls-cert FILE and --tls-key FILE"
	}
	return ""
}
