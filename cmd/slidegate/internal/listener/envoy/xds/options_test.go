package xds

import (
	"log/slog"
	"net"
	"path/filepath"
	"testing"
	"time"

	discovery "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"go.opentelemetry.io/otel/metric/noop"
	"google.golang.org/grpc"

	"github.com/slidegate/slidegate/cmd/slidegate/internal/listener/envoy"
	"github.com/slidegate/slidegate/config"
)

// Addresses without a host or a port are errors, except for those of Unix sockets.
func TestAddresses(t *testing.T) {
	for address, valid := range map[string]bool{
		"h:1": true, "[::1]:1": true, "unix:/run/xds.sock": true, "18000": false, ":18000": false, "h:": false, "h": false,
	} {
		if err := check(&config.XDS{Address: address}); (err == nil) != valid {
			t.Errorf("%s: got %v, want valid: %v", address, err, valid)
		}
	}
}

// server sends an empty set of rules.
type server struct {
	discovery.UnimplementedAggregatedDiscoveryServiceServer
}

func (server) StreamAggregatedResources(stream discovery.AggregatedDiscoveryService_StreamAggregatedResourcesServer) error {
	if _, err := stream.Recv(); err != nil {
		return err
	}
	if err := stream.Send(&discovery.DiscoveryResponse{TypeUrl: typeURL, VersionInfo: "1"}); err != nil {
		return err
	}
	<-stream.Context().Done()
	return nil
}

// Rules are received over a Unix socket too.
func TestUnixSocket(t *testing.T) {
	path := filepath.Join(t.TempDir(), "xds.sock")
	listener, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	serving := grpc.NewServer()
	discovery.RegisterAggregatedDiscoveryServiceServer(serving, server{})
	go serving.Serve(listener) //nolint:errcheck // it ends with the test
	defer serving.Stop()
	received := make(chan struct{}, 1)
	client, err := New(config.XDS{Address: "unix:" + path}, slog.New(slog.DiscardHandler), noop.NewMeterProvider(), func([]*envoy.Domain) error {
		received <- struct{}{}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	go client.Run(t.Context())
	select {
	case <-received:
	case <-time.After(time.Minute):
		t.Fatal("no rules were received")
	}
}
