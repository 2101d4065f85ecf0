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

	"github.com/slidegate/slidegate/config"
)

// Options say where the management server is and who asks it. Address is required.
type Options struct {
	// Address is HOST:PORT, or unix:/path.
	Address string
	// Node is the identifier by which the server knows this client; empty means default, as in the original. Instances that are to
	// have the same rules have the same one.
	Node string
	// Metadata is more for the server to know the client by.
	Metadata map[string]string
	// Headers go with the stream, such as a token.
	Headers map[string]string
	// TLS is how the connection is secured.
	TLS TLS
	// MinWait and MaxWait bound how long a client waits before it connects again. 0 means a second and half a minute.
	MinWait, MaxWait time.Duration
	// Logger receives what happens; nil discards it.
	Logger *slog.Logger
	// MeterProvider gets the metrics; nil means the global one.
	MeterProvider metric.MeterProvider
}

// TLS says how a connection is secured. The zero value means not at all, which is for a server on the same machine.
type TLS struct {
	Use bool
	// CA has the authorities that the server's certificate must come from, in PEM form; empty means those of the system.
	CA string
	// Cert and Key are the client's own certificate; empty if it has none.
	Cert, Key string
	// ServerName is the name that the server's certificate must have; empty means the host of the address.
	ServerName string
}

func (t TLS) used() bool { return t != TLS{} }

// credentials reads the files, which may have been renewed since the last connection.
func (t TLS) credentials() (credentials.TransportCredentials, error) {
	if !t.used() {
		return insecure.NewCredentials(), nil
	}
	made := &tls.Config{ServerName: t.ServerName, MinVersion: tls.VersionTLS12}
	if t.CA != "" {
		text, err := os.ReadFile(t.CA)
		if err != nil {
			return nil, invalid("TLS.CA", "%w", err)
		}
		made.RootCAs = x509.NewCertPool()
		if !made.RootCAs.AppendCertsFromPEM(text) {
			return nil, invalid("TLS.CA", "%s has no certificate in PEM form", t.CA)
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
		made.Certificates = []tls.Certificate{pair}
	}
	return credentials.NewTLS(made), nil
}

func (o Options) validate() (Options, error) {
	switch {
	case o.Address == "":
		return o, invalid("Address", "is missing; give HOST:PORT of the management server")
	case !isHostPort(o.Address):
		return o, invalid("Address", "%q is not HOST:PORT of a management server", o.Address)
	case o.MinWait < 0 || o.MaxWait < 0:
		return o, invalid("MinWait", "must not be negative, and MaxWait neither; 0 means the default")
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
	return &config.OptionError{Package: "xds", Option: option, Err: fmt.Errorf(format, args...)}
}
