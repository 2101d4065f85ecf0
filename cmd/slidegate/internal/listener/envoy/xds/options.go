package xds

import (
	"cmp"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"log/slog"
	"net"
	"os"
	"time"

	"go.opentelemetry.io/otel/metric"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/slidegate/slidegate/internal/options"
)

// Options configures a Client. Address is required.
type Options struct {
	// Address is HOST:PORT, or unix:/path.
	Address string
	// Node identifies this client to the server; empty means default, as in the original. Instances that should have
	// the same rules have the same Node.
	Node string
	// Metadata further identifies the client to the server.
	Metadata map[string]string
	// Headers are sent with the stream, such as a token.
	Headers map[string]string
	// TLS configures the security of the connection.
	TLS TLS
	// MinWait and MaxWait bound the wait before reconnecting. 0 means a second and half a minute.
	MinWait, MaxWait time.Duration
	// Logger receives the client's log; nil discards it.
	Logger *slog.Logger
	// MeterProvider receives the metrics; nil means the global one.
	MeterProvider metric.MeterProvider
}

// TLS configures the security of a connection. The zero value disables it, for a server on the same machine.
type TLS struct {
	Use bool
	// CA holds the certificate authorities for the server's certificate, in PEM form; empty means the system's.
	CA string
	// Cert and Key are the client's certificate; empty if it has none.
	Cert, Key string
	// ServerName is the name in the server's certificate; empty means the host of the address.
	ServerName string
}

func (t TLS) enabled() bool { return t != TLS{} }

// credentials reads the files, which may have been renewed since the last connection.
func (t TLS) credentials() (credentials.TransportCredentials, error) {
	if !t.enabled() {
		return insecure.NewCredentials(), nil
	}
	settings := &tls.Config{ServerName: t.ServerName, MinVersion: tls.VersionTLS12}
	if t.CA != "" {
		text, err := os.ReadFile(t.CA)
		if err != nil {
			return nil, invalid("TLS.CA", "%w", err)
		}
		settings.RootCAs = x509.NewCertPool()
		if !settings.RootCAs.AppendCertsFromPEM(text) {
			return nil, invalid("TLS.CA", "%s contains no certificate in PEM form", t.CA)
		}
	}
	switch {
	case t.Cert == "" && t.Key != "":
		return nil, invalid("TLS.Cert", "is missing; give the certificate that the key belongs to")
	case t.Cert != "" && t.Key == "":
		return nil, invalid("TLS.Key", "is missing; give the key of the certificate")
	}
	if t.Cert != "" {
		pair, err := tls.LoadX509KeyPair(t.Cert, t.Key)
		if err != nil {
			return nil, invalid("TLS.Cert", "%w", err)
		}
		settings.Certificates = []tls.Certificate{pair}
	}
	return credentials.NewTLS(settings), nil
}

func (o Options) validate() (Options, error) {
	switch {
	case o.Address == "":
		return o, invalid("Address", "is missing; give HOST:PORT of the management server")
	case !isHostPort(o.Address):
		return o, invalid("Address", "%q is not HOST:PORT of a management server", o.Address)
	case o.MinWait < 0 || o.MaxWait < 0:
		return o, invalid("MinWait", "MinWait and MaxWait must not be negative; 0 means the default")
	}
	if _, err := o.TLS.credentials(); err != nil {
		return o, err
	}
	o.Node = cmp.Or(o.Node, "default")
	o.MinWait, o.MaxWait = cmp.Or(o.MinWait, time.Second), cmp.Or(o.MaxWait, 30*time.Second)
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	return o, nil
}

func isHostPort(address string) bool {
	host, port, err := net.SplitHostPort(address)
	return err == nil && host != "" && port != ""
}

func invalid(option, format string, args ...any) error {
	return &options.Error{Package: "xds", Option: option, Err: fmt.Errorf(format, args...)}
}
