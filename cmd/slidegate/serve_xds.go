package main

import (
	"errors"
	"reflect"

	"github.com/slidegate/slidegate/cmd/slidegate/internal/server/envoy/xds"
)

// envoyXDSFlags say which management server has rules for Envoy.
type envoyXDSFlags struct {
	XDS         string            `option:"xds.Address" name:"envoy-xds" placeholder:"HOST:PORT" help:"A management server that sends rules, as envoyproxy/ratelimit takes them (ADS, state of the world). They are put together with those of --envoy." group:"Envoy"`
	XDSNode     string            `name:"envoy-xds-node" placeholder:"ID" default:"default" help:"The node identifier to show it. (default: default)" group:"Envoy"`
	XDSMetadata map[string]string `name:"envoy-xds-metadata" placeholder:"NAME=VALUE" mapsep:"none" help:"Metadata of the node. Repeat it for several." group:"Envoy"`
	XDSHeader   map[string]string `name:"envoy-xds-header" placeholder:"NAME=VALUE" mapsep:"none" help:"A header to send it. Repeat it for several." group:"Envoy"`
	XDSTLS      bool              `name:"envoy-xds-tls" help:"Use TLS to reach it, also if none of the following is given." group:"Envoy"`
	XDSCA       string            `option:"xds.TLS.CA" name:"envoy-xds-ca" placeholder:"FILE" help:"Who must have signed its certificate. (default: the system's authorities)" group:"Envoy"`
	XDSCert     string            `option:"xds.TLS.Cert" name:"envoy-xds-cert" placeholder:"FILE" help:"The certificate to show it, in PEM form." group:"Envoy"`
	XDSKey      string            `option:"xds.TLS.Key" name:"envoy-xds-key" placeholder:"FILE" help:"Its key." group:"Envoy"`
	XDSName     string            `name:"envoy-xds-server-name" placeholder:"NAME" help:"The name that its certificate must have. (default: the host)" group:"Envoy"`
}

// check refuses flags about a management server that is not named.
func (f *envoyXDSFlags) check() error {
	alone := *f
	alone.XDSNode = ""
	if f.XDS == "" && (f.XDSNode != defaultNode || !reflect.DeepEqual(alone, envoyXDSFlags{})) {
		return errors.New("--envoy-xds: is missing; the flags that begin with --envoy-xds- say how to reach the management server that it names")
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
