package grpclimit_test

import (
	"context"
	"net/netip"
	"strings"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/slidegate/slidegate/clientip"
	"github.com/slidegate/slidegate/grpclimit"
)

// callCode decides a call, as a server would, and returns the status code.
func callCode(ctx context.Context, limits *grpclimit.Interceptors) codes.Code {
	_, err := limits.Unary()(ctx, nil, &grpc.UnaryServerInfo{FullMethod: say}, func(context.Context, any) (any, error) { return nil, nil })
	return status.Code(err)
}

// interceptors returns the interceptors of one policy, which admits one call per minute.
func interceptors(t *testing.T, p grpclimit.Policy, client *clientip.Source) *grpclimit.Interceptors {
	t.Helper()
	p.Name, p.Limits = "a", parse("1/1m")
	limits, err := grpclimit.New(newLimiter(t, newClock()), grpclimit.Options{Policies: []grpclimit.Policy{p}, Client: client})
	if err != nil {
		t.Fatal(err)
	}
	return limits
}

// Clients without the metadata that they are counted by do not share a key, and none can use another's address as its
// name.
func TestEmptyKeyIsAddress(t *testing.T) {
	for name, key := range map[string]grpclimit.Key{
		"metadata": grpclimit.ByMetadata("x-user"), "API key": grpclimit.ByAPIKey("x-user"), "bearer": grpclimit.ByBearerToken(),
		"first of": grpclimit.FirstOf(grpclimit.ByMetadata("x-user"), grpclimit.ByBearerToken()),
		"own":      grpclimit.KeyFunc(func(context.Context, string) (string, error) { return "", nil }),
	} {
		limits := interceptors(t, grpclimit.Policy{Key: key}, nil)
		for i, want := range []codes.Code{codes.OK, codes.ResourceExhausted} {
			for _, address := range []string{"203.0.113.7:1", "203.0.113.8:1", "[2001:db8::1]:1"} {
				if got := callCode(from(tcp(address)), limits); got != want {
					t.Errorf("%s: call %d from %s without a name: got %v, want %v", name, i+1, address, got, want)
				}
			}
		}
	}
	limits := interceptors(t, grpclimit.Policy{Key: grpclimit.ByMetadata("x-user")}, nil)
	for _, user := range []string{"203.0.113.7", "address:203.0.113.7", "%address:203.0.113.7", "%%address:203.0.113.7", ""} {
		if got := callCode(from(tcp("203.0.113.7:1"), "x-user", user), limits); got != codes.OK {
			t.Errorf("the first call of %q: got %v, want OK: no other client has this key", user, got)
		}
	}
	if v, err := limits.Peek(t.Context(), "a", "address:203.0.113.7"); err != nil || v.Decision.Remaining != 0 {
		t.Errorf("the address: got %d units left, %v; want 0", v.Decision.Remaining, err)
	}
	if _, err := limits.Peek(t.Context(), "a", ""); err == nil || !strings.Contains(err.Error(), "address:") {
		t.Errorf("a peek at the empty key, which no client has: got %v, want an error", err)
	}
	if err := limits.Reset(t.Context(), "a", ""); err == nil {
		t.Error("a reset of the empty key, which no client has: got no error")
	}
	ctx := from(tcp("203.0.113.7:1"))
	if v, err := limits.PeekCall(ctx, say); err != nil || v.Decision.Remaining != 0 {
		t.Errorf("a call without a name: got %d units left, %v; want 0", v.Decision.Remaining, err)
	}
}

// The address is the one found by Options.Client.
func TestEmptyKeyBehindProxy(t *testing.T) {
	proxies, err := clientip.New(clientip.Options{Header: "X-Forwarded-For", Trusted: []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8")}})
	if err != nil {
		t.Fatal(err)
	}
	limits := interceptors(t, grpclimit.Policy{Key: grpclimit.ByMetadata("x-user")}, proxies)
	for _, client := range []string{"203.0.113.7", "203.0.113.8"} {
		if got := callCode(from(tcp("10.0.0.1:1"), "x-forwarded-for", client), limits); got != codes.OK {
			t.Errorf("the first call of %s: got %v, want OK", client, got)
		}
	}
}

// The empty key is shared where that is intended.
func TestSharedEmptyKey(t *testing.T) {
	for name, p := range map[string]grpclimit.Policy{
		"global": {Key: grpclimit.Global()}, "shared": {Key: grpclimit.ByMetadata("x-user"), ShareEmptyKey: true},
	} {
		limits := interceptors(t, p, nil)
		first, second := callCode(from(tcp("203.0.113.7:1")), limits), callCode(from(tcp("203.0.113.8:1")), limits)
		if first != codes.OK || second != codes.ResourceExhausted {
			t.Errorf("%s: two clients got %v and %v, want one key for both", name, first, second)
		}
		if v, err := limits.Peek(t.Context(), "a", ""); err != nil || v.Decision.Remaining != 0 {
			t.Errorf("%s: the empty key: got %d units left, %v; want 0", name, v.Decision.Remaining, err)
		}
	}
}

// Clients share the empty key: they obey the quota that a server gives to all of them.
func TestClientsShareEmptyKey(t *testing.T) {
	client, err := grpclimit.NewClient(newLimiter(t, newClock()), grpclimit.ClientOptions{
		Policies: []grpclimit.Policy{{Name: "a", Key: grpclimit.ByMetadata("x-user"), Limits: parse("1/1m")}},
	})
	if err != nil {
		t.Fatal(err)
	}
	call := func(address string) codes.Code {
		return status.Code(client.Unary()(from(tcp(address)), say, nil, nil, nil,
			func(context.Context, string, any, any, *grpc.ClientConn, ...grpc.CallOption) error { return nil }))
	}
	if first, second := call("203.0.113.7:1"), call("203.0.113.8:1"); first != codes.OK || second != codes.ResourceExhausted {
		t.Errorf("two calls got %v and %v, want one key for both", first, second)
	}
}
