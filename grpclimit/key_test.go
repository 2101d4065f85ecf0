package grpclimit_test

import (
	"context"
	"net"
	"net/netip"
	"strings"
	"testing"

	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/peer"

	"github.com/slidegate/slidegate/clientip"
	"github.com/slidegate/slidegate/grpclimit"
)

// from returns the context of a call from an address, with metadata in pairs.
func from(addr net.Addr, pairs ...string) context.Context {
	ctx := peer.NewContext(context.Background(), &peer.Peer{Addr: addr})
	return metadata.NewIncomingContext(ctx, metadata.Pairs(pairs...))
}

func tcp(text string) net.Addr { return net.TCPAddrFromAddrPort(netip.MustParseAddrPort(text)) }

func TestKeys(t *testing.T) {
	proxies, err := clientip.New(clientip.Options{
		Header:  "X-Forwarded-For",
		Trusted: []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8")},
	})
	if err != nil {
		t.Fatal(err)
	}
	const forwarded = "x-forwarded-for"
	client := tcp("192.0.2.1:5000")
	// The hash is the first half of the SHA-256 of s3cret.
	const hash = "sha256:1ec1c26b50d5d3c58d9583181af80766"
	constant := func(text string) grpclimit.Key {
		return grpclimit.KeyFunc(func(context.Context, string) (string, error) { return text, nil })
	}

	for _, c := range []struct {
		name string
		key  grpclimit.Key
		ctx  context.Context
		want string
	}{
		{"address of IPv4", grpclimit.ByAddress(nil), from(client), "192.0.2.1"},
		{"address of IPv4 in IPv6", grpclimit.ByAddress(nil), from(tcp("[::ffff:192.0.2.1]:5000")), "192.0.2.1"},
		{"address of IPv6", grpclimit.ByAddress(nil), from(tcp("[2001:db8:1:2:3::4]:5000")), "2001:db8:1:2::/64"},
		{"address with a zone", grpclimit.ByAddress(nil), from(tcp("[fe80::1%eth0]:5000")), "fe80::/64"},
		{"address over UDP", grpclimit.ByAddress(nil), from(&net.UDPAddr{IP: net.IPv4(192, 0, 2, 9), Port: 1}), "192.0.2.9"},
		{"address of a socket", grpclimit.ByAddress(nil), from(&net.UnixAddr{Name: "@", Net: "unix"}), clientip.NoAddress},
		{"no address", grpclimit.ByAddress(nil), context.Background(), clientip.NoAddress},
		{"address, others not trusted", grpclimit.ByAddress(nil), from(client, forwarded, "203.0.113.7"), "192.0.2.1"},
		{"address, zero source", grpclimit.ByAddress(new(clientip.Source)), from(client, forwarded, "203.0.113.7"), "192.0.2.1"},
		{"address, peer not trusted", grpclimit.ByAddress(proxies), from(client, forwarded, "203.0.113.7"), "192.0.2.1"},
		{"address behind a proxy", grpclimit.ByAddress(proxies), from(tcp("10.1.1.1:80"), forwarded, "203.0.113.7"), "203.0.113.7"},
		{"address behind two", grpclimit.ByAddress(proxies),
			from(tcp("10.1.1.1:80"), forwarded, "198.51.100.1, 203.0.113.7", forwarded, "10.2.2.2"), "203.0.113.7"},
		{"no address, with a source", grpclimit.ByAddress(proxies), context.Background(), clientip.NoAddress},

		{"metadata", grpclimit.ByMetadata("X-User"), from(client, "x-user", "ann"), "ann"},
		{"metadata twice", grpclimit.ByMetadata("X-User"), from(client, "x-user", "ann", "x-user", "bob"), ""},
		{"missing metadata", grpclimit.ByMetadata("x-user"), from(client), ""},
		{"binary metadata", grpclimit.ByMetadata("user-bin"), from(client, "user-bin", "\x00\xff"), "\x00\xff"},
		{"API key", grpclimit.ByAPIKey("X-API-Key"), from(client, "x-api-key", "s3cret"), hash},
		{"missing API key", grpclimit.ByAPIKey("x-api-key"), from(client), ""},
		{"bearer token", grpclimit.ByBearerToken(), from(client, "authorization", "Bearer s3cret"), hash},
		{"bearer token in other case", grpclimit.ByBearerToken(), from(client, "authorization", "bEARER  s3cret "), hash},
		{"not a bearer token", grpclimit.ByBearerToken(), from(client, "authorization", "Basic s3cret"), ""},
		{"bearer token cut short", grpclimit.ByBearerToken(), from(client, "authorization", "Bear"), ""},

		{"method", grpclimit.ByMethod(), from(client), say},
		{"global", grpclimit.Global(), from(client), ""},
		{"each", grpclimit.AllOf(grpclimit.ByMethod(), constant("bc"), constant("")), from(client), "14:/test.Echo/Say2:bc0:"},
		{"first of", grpclimit.FirstOf(grpclimit.ByMetadata("x-user"), grpclimit.ByAddress(nil)), from(client, "x-user", "ann"), "metadata:x-user:ann"},
		{"second of", grpclimit.FirstOf(grpclimit.ByMetadata("x-user"), grpclimit.ByAddress(nil)), from(client), "address:192.0.2.1"},
		{"none of", grpclimit.FirstOf(grpclimit.ByMetadata("x-user")), from(client), ""},
	} {
		if got, err := grpclimit.KeyOf(c.key, c.ctx, say); err != nil || got != c.want {
			t.Errorf("%s: got %q, want %q", c.name, got, c.want)
		}
	}
}

// A nil key is detected where it is passed, and not at the first request.
func TestNilKeys(t *testing.T) {
	some := grpclimit.Global()
	for want, call := range map[string]func(){
		"AllOf: key 2 of 2 is the zero Key":   func() { grpclimit.AllOf(some, grpclimit.Key{}) },
		"AllOf: key 1 of 1 is the zero Key":   func() { grpclimit.AllOf(grpclimit.Key{}) },
		"FirstOf: key 1 of 2 is the zero Key": func() { grpclimit.FirstOf(grpclimit.Key{}, some) },
	} {
		func() {
			defer func() {
				if text, _ := recover().(string); !strings.HasPrefix(text, "grpclimit: "+want) {
					t.Errorf("got panic %q, want %q", text, want)
				}
			}()
			call()
		}()
	}
}
