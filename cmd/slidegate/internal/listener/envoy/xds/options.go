package xds

import (
	"crypto/tls"
	"crypto/x509"
	"net"
	"os"
	"strings"

	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/slidegate/slidegate/config"
	"github.com/slidegate/slidegate/internal/options"
)

// readTLS reads the files of a connection, which may have been renewed since the last one.
func readTLS(from *config.XDS) (credentials.TransportCredentials, error) {
	if !from.TLS {
		return insecure.NewCredentials(), nil
	}
	settings := &tls.Config{ServerName: from.ServerName, MinVersion: tls.VersionTLS12}
	if from.CA != "" {
		text, err := os.ReadFile(from.CA)
		if err != nil {
			return nil, invalid("envoy", "xds: ca: %w", err)
		}
		settings.RootCAs = x509.NewCertPool()
		if !settings.RootCAs.AppendCertsFromPEM(text) {
			return nil, invalid("envoy", "xds: ca: %s contains no certificate in PEM form", from.CA)
		}
	}
	switch {
	case from.Cert == "" && from.Key != "":
		return nil, invalid("envoy", "xds: cert: is missing; give the certificate that the key belongs to")
	case from.Cert != "" && from.Key == "":
		return nil, invalid("envoy", "xds: key: is missing; give the key of the certificate")
	}
	if from.Cert != "" {
		pair, err := tls.LoadX509KeyPair(from.Cert, from.Key)
		if err != nil {
			return nil, invalid("envoy", "xds: cert: %w", err)
		}
		settings.Certificates = []tls.Certificate{pair}
	}
	return credentials.NewTLS(settings), nil
}

// check returns an error if no connection can be made with these settings.
func check(server *config.XDS) error {
	host, port, err := net.SplitHostPort(server.Address)
	if !strings.HasPrefix(server.Address, "unix:") && (err != nil || host == "" || port == "") {
		return invalid("envoy", "xds: address: %q is not HOST:PORT of a management server", server.Address)
	}
	_, err = readTLS(server)
	return err
}

// invalid returns an error about a field of a policy file.
func invalid(option, format string, args ...any) error {
	return options.Invalid("xds", option, format, args...)
}
