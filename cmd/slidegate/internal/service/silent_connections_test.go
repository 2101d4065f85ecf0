package service_test

import (
	"fmt"
	"io"
	"net"
	"sync/atomic"
	"testing"

	"github.com/slidegate/slidegate/cmd/slidegate/internal/service"
	"github.com/slidegate/slidegate/cmd/slidegate/internal/testkit"
)

// openSilentConnections opens connections to a listener from an address, and sends nothing. It waits until the expected number is
// held and all others are closed, either immediately or when later connections replace them.
func (s *started) openSilentConnections(t *testing.T, listener, from string, n, want int) {
	t.Helper()
	dialer := &net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(from)}}
	var gone atomic.Int64
	for range n {
		conn, err := dialer.Dial("tcp", s.Address(listener))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { conn.Close() })
		go func() {
			_, _ = io.Copy(io.Discard, conn) // until it is closed
			gone.Add(1)
		}()
	}
	testkit.Eventually(t, fmt.Sprintf("%s holds %d of %d connections", listener, want, n), func() bool {
		open, _ := s.Connections(listener)
		return open == int64(want) && open+gone.Load() == int64(n)
	})
}

// TestOneAddressKeepsOutNoOther: a client that opens as many connections as it can from one address keeps out no other client, on
// any listener.
func TestOneAddressKeepsOutNoOther(t *testing.T) {
	const most = 20
	for name, test := range map[string]struct {
		file string
		per  int
		want int
	}{
		"a quarter by default": {"trusted_proxies: []\n" + roomy, 0, most / 4},
		"as configured":        {"trusted_proxies: [10.0.0.0/8]\n" + roomy, 3, 3},
		"a trusted proxy":      {"trusted_proxies: [127.0.0.2]\n" + roomy, 3, most},
		"this machine":         {roomy, 3, most},
	} {
		t.Run(name, func(t *testing.T) {
			s := start(t, test.file, func(o *service.Options) {
				o.MaxConnections, o.MaxConnectionsPerAddress, o.Tokens = most, test.per, []string{someToken}
				o.Envoy = []string{domainFile(t)}
				withApplication(t, nil)(o)
			})
			for _, listener := range []string{"http", "grpc", "resp", "proxy", "admin"} {
				want := test.want
				if listener == "resp" {
					want = min(want, most/4) // RESP clients without a token, from any address
				}
				s.openSilentConnections(t, listener, "127.0.0.2", 2*most, want)
			}
			if test.want == most {
				return
			}
			for listener, err := range s.sendToAll(t, nil, someToken) {
				if err != nil {
					t.Errorf("%s, another client: got %v", listener, err)
				}
			}
			if err := s.callHTTP("admin", nil, "/metrics", someToken); err != nil {
				t.Errorf("admin, another client: got %v", err)
			}
		})
	}
}
