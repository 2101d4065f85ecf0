package xds

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"time"

	core "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	discovery "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	rlsconfig "github.com/envoyproxy/go-control-plane/ratelimit/config/ratelimit/v3"
	"go.opentelemetry.io/otel/metric"
	rpcstatus "google.golang.org/genproto/googleapis/rpc/status"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/keepalive"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/anypb"
	"google.golang.org/protobuf/types/known/structpb"

	"github.com/slidegate/slidegate/cmd/slidegate/internal/instrument"
	"github.com/slidegate/slidegate/cmd/slidegate/internal/listener/envoy"
	"github.com/slidegate/slidegate/config"
)

// typeURL is the type of rules on the stream.
const typeURL = "type.googleapis.com/ratelimit.config.ratelimit.v3.RateLimitConfig"

// maxMessage is the maximum size of a server's response, in bytes.
const maxMessage = 64 << 20

// Client receives rules from a management server. The zero value is not usable; call New, and then Run.
type Client struct {
	server config.XDS
	log    *slog.Logger
	apply  func([]*envoy.Domain) error
	node   *core.Node
	state  state
	outage outage
}

// minWait and maxWait bound the wait before reconnecting.
const (
	minWait = time.Second
	maxWait = 30 * time.Second
)

// New returns a client that calls apply with all rules each time the server sends some. An error of apply rejects them;
// the rules applied before then stay in force. Only Run calls apply.
func New(server config.XDS, log *slog.Logger, meters metric.MeterProvider, apply func([]*envoy.Domain) error) (*Client, error) {
	if err := check(&server); err != nil {
		return nil, err
	}
	c := &Client{server: server, log: log, apply: apply}
	c.node = &core.Node{Id: cmp.Or(server.Node, "default"), UserAgentName: "slidegate"} // as in the original
	if len(server.Metadata) > 0 {
		c.node.Metadata = &structpb.Struct{Fields: map[string]*structpb.Value{}}
		for name, value := range server.Metadata {
			c.node.Metadata.Fields[name] = structpb.NewStringValue(value)
		}
	}
	c.outage = outage{log: log.With(slog.String("address", server.Address))}
	_, err := instrument.Register(meters, table, func() *state { return &c.state })
	return c, err
}

// Run follows the server until ctx ends, and reconnects whenever the connection is lost.
func (c *Client) Run(ctx context.Context) {
	wait := minWait
	for {
		responded, err := c.follow(ctx)
		c.state.connected.Store(false)
		if ctx.Err() != nil {
			return
		}
		c.outage.begin(err)
		if responded {
			wait = minWait
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(wait/2 + rand.N(wait/2+1)): // so that instances do not reconnect together
		}
		wait = min(2*wait, maxWait)
	}
}

// follow connects, and applies what the server sends until the stream fails. It reports whether the server sent
// anything.
func (c *Client) follow(ctx context.Context) (responded bool, err error) {
	secure, err := readTLS(&c.server)
	if err != nil {
		return false, err
	}
	conn, err := grpc.NewClient(c.server.Address, grpc.WithTransportCredentials(secure),
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(maxMessage)),
		grpc.WithKeepaliveParams(keepalive.ClientParameters{Time: 6 * time.Minute, Timeout: 20 * time.Second})) // servers allow one in 5 minutes by default
	if err != nil {
		return false, err
	}
	defer conn.Close()
	ctx, cancel := context.WithCancel(metadata.NewOutgoingContext(ctx, metadata.New(c.server.Headers)))
	defer cancel()
	stream, err := discovery.NewAggregatedDiscoveryServiceClient(conn).StreamAggregatedResources(ctx)
	if err != nil {
		return false, err
	}
	// No version: a restarted server may use this client's version for other rules.
	if err := stream.Send(&discovery.DiscoveryRequest{Node: c.node, TypeUrl: typeURL}); err != nil {
		return false, streamError(stream, err)
	}
	accepted := "" // the last version accepted on this stream
	for {
		response, err := stream.Recv()
		if err != nil {
			return responded, err
		}
		responded = true
		c.state.connected.Store(true)
		c.outage.end()
		if response.GetTypeUrl() != typeURL {
			continue // not requested
		}
		ack := &discovery.DiscoveryRequest{Node: c.node, TypeUrl: typeURL, ResponseNonce: response.GetNonce()}
		if err := c.applyResponse(response); err != nil {
			ack.ErrorDetail = &rpcstatus.Status{Code: int32(codes.InvalidArgument), Message: err.Error()}
		} else {
			accepted = response.GetVersionInfo()
		}
		ack.VersionInfo = accepted
		if err := stream.Send(ack); err != nil {
			return responded, streamError(stream, err)
		}
	}
}

// streamError returns why a stream ended, which the error of Send does not say.
func streamError(stream discovery.AggregatedDiscoveryService_StreamAggregatedResourcesClient, err error) error {
	if _, why := stream.Recv(); why != nil {
		return why
	}
	return err
}

// applyResponse applies what the server sent, all or nothing.
func (c *Client) applyResponse(response *discovery.DiscoveryResponse) error {
	version := slog.String("version", response.GetVersionInfo())
	domains, err := read(response.GetResources())
	if err == nil {
		err = c.apply(domains)
	}
	if err != nil {
		c.state.rejected.Add(1)
		c.log.Error("xds: rules rejected; those in force stay in force", version, slog.Any("error", err))
		return err
	}
	c.state.accept(response.GetVersionInfo(), time.Now())
	c.log.Info("xds: rules received", version, slog.Int("domains", len(domains)))
	return nil
}

// read converts what the server sent to domains.
func read(resources []*anypb.Any) (domains []*envoy.Domain, err error) {
	var all []error
	for i, resource := range resources {
		config := &rlsconfig.RateLimitConfig{}
		if err := resource.UnmarshalTo(config); err != nil {
			all = append(all, fmt.Errorf("resources[%d]: %w", i, err))
			continue
		}
		domain, err := envoy.FromConfig(config)
		if err != nil {
			all = append(all, err)
			continue
		}
		domains = append(domains, domain)
	}
	if err = errors.Join(all...); err == nil {
		domains, err = envoy.Merge(domains)
	}
	return domains, err
}

// outage logs once when the server becomes unreachable, and once when it is reachable again.
type outage struct {
	log      *slog.Logger
	began    time.Time // zero outside an outage
	attempts int
	reached  bool // the server has responded before
}

func (o *outage) begin(err error) {
	o.attempts++
	if !o.began.IsZero() {
		return
	}
	o.began = time.Now()
	o.log.Warn("xds: the management server cannot be reached; the rules in force stay in force", slog.String("error", status.Convert(err).Message()))
}

func (o *outage) end() {
	switch {
	case !o.began.IsZero():
		o.log.Info("xds: the management server is reachable again", slog.Duration("after", time.Since(o.began)), slog.Int("attempts", o.attempts))
	case !o.reached:
		o.log.Info("xds: the management server is reachable")
	}
	o.reached, o.began, o.attempts = true, time.Time{}, 0
}
