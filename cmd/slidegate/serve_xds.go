package main

import (
	"errors"
	"reflect"

	"github.com/slidegate/slidegate/cmd/slidegate/internal/listener/envoy/xds"
)

// envoyXDSFlags configure the management server that sends Envoy rules.
type envoyXDSFlags struct {
	XDS         string            `option:"xds.Address" name:"envoy-xds" placeholder:"HOST:PORT" help:"Management server that sends rules, as for envoyproxy/ratelimit (ADS, state of the world). They are combined with the rules of --envoy." group:"Envoy"`
	XDSNode     string            `name:"envoy-xds-node" placeholder:"ID" default:"default" help:"Node identifier to send to it. (default: default)" group:"Envoy"`
	XDSMetadata map[string]string `name:"envoy-xds-metadata" placeholder:"NAME=VALUE" mapsep:"none" help:"Metadata of the node. Repeat the flag for several." group:"Envoy"`
	XDSHeader   map[string]string `name:"envoy-xds-header" placeholder:"NAME=VALUE" mapsep:"none" help:"Header to send to it. Repeat the flag for several." group:"Envoy"`
	XDSTLS      bool              `name:"envoy-xds-tls" help:"Connect with TLS, even if none of the following flags is given." group:"Envoy"`
	XDSCA       string            `option:"xds.TLS.CA" name:"envoy-xds-ca" placeholder:"FILE" help:"CA certificate to verify it with, as PEM. (default: the system's CAs)" group:"Envoy"`
	XDSCert     string            `option:"xds.TLS.Cert" name:"envoy-xds-cert" placeholder:"FILE" help:"Client certificate to send to it, as PEM." group:"Envoy"`
	XDSKey      string            `option:"xds.TLS.Key" name:"envoy-xds-key" placeholder:"FILE" help:"Private key of the client certificate, as PEM." group:"Envoy"`
	XDSName     string            `name:"envoy-xds-server-name" placeholder:"NAME" help:"Name that its certificate must have. (default: the host)" group:"Envoy"`
}

// check rejects flags for a management server if --envoy-xds does not name one.
func (f *envoyXDSFlags) check() error {
	others := *f
	others.XDSNode = ""
	if f.XDS == "" && (f.XDSNode != defaultNode || !reflect.DeepEqual(others, envoyXDSFlags{})) {
		return errors.New("--envoy-xds: is missing; the flags that begin with --envoy-xds- apply to the management server that it names")
	}
	return nil
}

// defaultNode is the default of --envoy-xds-node.
const defaultNode = "default"

func (f *envoyXDSFlags) read() xds.Options {
	return xds.Options{
		Address: f.XDS, Node: f.XDSNode, Metadata: f.XDSMetadata, Headers: f.XDSHeader,
		TLS: xds.TLS{Use: f.XDSTLS, CA: f.XDSCA, Cert: f.XDSCert, Key: f.XDSKey, ServerName: f.XDSName},
	}
}
