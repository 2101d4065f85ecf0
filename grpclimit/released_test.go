package grpclimit_test

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/peer"

	"github.com/slidegate/slidegate"
	"github.com/slidegate/slidegate/grpclimit"
	"github.com/slidegate/slidegate/internal/testkit"
	"github.com/slidegate/slidegate/memstore"
)

// The counts of a client are found again by a later version of a program: a call under these policies is charged to the same addresses.
func TestReleasedAddresses(t *testing.T) {
	user, policies := grpclimit.ByMetadata("X-User"), []grpclimit.Policy{}
	for name, key := range map[string]grpclimit.Key{
		"address": grpclimit.ByAddress(nil), "metadata": user, "token": grpclimit.ByBearerToken(), "secret": grpclimit.ByAPIKey("X-Api-Key"),
		"method": grpclimit.ByMethod(), "global": grpclimit.Global(), "all": grpclimit.AllOf(user, grpclimit.ByMethod()),
		"first": grpclimit.FirstOf(user, grpclimit.ByAddress(nil)),
		"func":  grpclimit.KeyFunc(func(_ context.Context, method string) (string, error) { return "of " + method, nil }),
	} {
		policies = append(policies, grpclimit.Policy{Name: name, Key: key, Limits: []slidegate.Limit{slidegate.PerMinute(10)}})
	}
	hourly := slidegate.PerHour(10)
	hourly.Name = "slow"
	policies = append(policies, grpclimit.Policy{
		Name: "several", Key: user, Limits: []slidegate.Limit{slidegate.PerMinute(10), hourly}, Candidate: []slidegate.Limit{slidegate.PerMinute(5)}, Penalty: time.Minute,
	})
	st := &testkit.Addresses{Store: memstore.NewDefault()}
	limits, err := grpclimit.New(slidegate.MustNew(slidegate.Namespace(st, "shop")), grpclimit.Options{
		Policies: policies, Group: func(context.Context, string) string { return "acme" },
	})
	if err != nil {
		t.Fatal(err)
	}
	var lines []string
	for client, name := range map[string]string{"203.0.113.9:1": "alice", "[2001:db8:1:2:3:4:5:6]:1": "address:203.0.113.9", "[2002:cb00:7109::1]:1": ""} {
		call := peer.NewContext(t.Context(), &peer.Peer{Addr: net.TCPAddrFromAddrPort(netip.MustParseAddrPort(client))})
		if name != "" {
			call = metadata.NewIncomingContext(call, metadata.Pairs("x-user", name, "x-api-key", "secret", "authorization", "Bearer secret"))
		}
		st.Seen = nil
		_, err := limits.Unary()(call, "request", &grpc.UnaryServerInfo{FullMethod: say}, func(context.Context, any) (any, error) { return "reply", nil })
		if err != nil {
			t.Fatal(err)
		}
		for _, address := range st.Seen {
			lines = append(lines, fmt.Sprintf("client %s, user %q: %s", client, name, address))
		}
	}
	testkit.Released(t, "../internal/repotest/released/interceptors.txt", lines)
}
