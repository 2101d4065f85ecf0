package grpclimit_test

import (
	"context"
	"fmt"
	"log"
	"net"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/health"
	"google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/grpc/test/bufconn"

	"github.com/slidegate/slidegate"
	"github.com/slidegate/slidegate/grpclimit"
	"github.com/slidegate/slidegate/memstore"
	"github.com/slidegate/slidegate/rule"
)

// A server limits its callers by address, and one expensive method more than the others. A refused call gets a retry
// delay.
func Example() {
	now := time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC) // stands still, so that the output never changes
	store, err := memstore.New(memstore.Options{Now: func() rule.Micros { return rule.Micros(now.UnixMicro()) }})
	if err != nil {
		log.Fatal(err)
	}
	limiter, err := slidegate.New(store, slidegate.PerMinute(100))
	if err != nil {
		log.Fatal(err)
	}
	limits, err := grpclimit.New(limiter, grpclimit.Options{Policies: []grpclimit.Policy{
		{Name: "calls"},
		{Name: "checks", Match: "/grpc.health.v1.Health/Check", Limits: []slidegate.Limit{slidegate.MustParseLimit("2/1m sliding-log")}},
	}})
	if err != nil {
		log.Fatal(err)
	}
	server := grpc.NewServer(grpc.UnaryInterceptor(limits.Unary()), grpc.StreamInterceptor(limits.Stream()))
	defer server.Stop()
	grpc_health_v1.RegisterHealthServer(server, health.NewServer())
	listener := bufconn.Listen(1 << 16)
	go func() {
		if err := server.Serve(listener); err != nil {
			log.Print(err)
		}
	}()

	conn, err := grpc.NewClient("passthrough:///server", grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) { return listener.DialContext(ctx) }))
	if err != nil {
		log.Fatal(err)
	}
	defer conn.Close()
	for range 3 {
		_, err := grpc_health_v1.NewHealthClient(conn).Check(context.Background(), &grpc_health_v1.HealthCheckRequest{})
		wait, refused := grpclimit.RetryAfter(err)
		fmt.Println(status.Code(err), refused, wait)
	}
	// Output:
	// OK false 0s
	// OK false 0s
	// ResourceExhausted true 1m0s
}

// A client obeys the quota agreed with its partner, and the answers of the partner's servers beyond that.
func ExampleNewClient() {
	limiter := slidegate.MustNew(memstore.NewDefault(), slidegate.PerSecond(50))
	client, err := grpclimit.NewClient(limiter, grpclimit.ClientOptions{Wait: true})
	if err != nil {
		log.Fatal(err)
	}
	conn, err := grpc.NewClient("dns:///partner.example:443", grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithUnaryInterceptor(client.Unary()), grpc.WithStreamInterceptor(client.Stream()))
	if err != nil {
		log.Fatal(err)
	}
	defer conn.Close()
	fmt.Println(conn.Target())
	// Output:
	// dns:///partner.example:443
}

// An administrator looks at what a client has left, and resets its usage.
func ExampleInterceptors_Reset() {
	store, _ := memstore.New(memstore.Options{})
	limiter, _ := slidegate.New(store, slidegate.PerHour(2))
	limits, _ := grpclimit.New(limiter, grpclimit.Options{Policies: []grpclimit.Policy{{
		Name: "api", Key: grpclimit.ByMetadata("user"),
	}}})
	ctx := context.Background()
	call := metadata.NewIncomingContext(ctx, metadata.Pairs("user", "ann"))
	_, _ = limits.Unary()(call, nil, &grpc.UnaryServerInfo{FullMethod: "/app.Shop/Buy"},
		func(context.Context, any) (any, error) { return nil, nil })

	before, _ := limits.Peek(ctx, "api", "ann")
	err := limits.Reset(ctx, "api", "ann")
	after, _ := limits.Peek(ctx, "api", "ann")
	fmt.Println(before.Decision.Remaining, err, after.Decision.Remaining)
	// Output: 1 <nil> 2
}
