//go:build no_nats_server

package stores

import "github.com/nats-io/nats.go"

// embedded is a NATS server in this process, which this build does not include.
type embedded struct{}

func parseEmbedded(string, *Options) (*natsTarget, error) {
	return nil, invalid("URL", "this build does not include a NATS server; write nats://HOST:PORT for a remote one, or build without the tag no_nats_server")
}

func (*embedded) clustered() bool { return false }

func (*embedded) connect(...nats.Option) (*nats.Conn, error) { return nil, ErrDown }

func (*embedded) close() error { return nil }
