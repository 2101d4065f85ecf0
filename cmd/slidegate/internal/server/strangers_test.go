package server_test

import (
	"fmt"
	"io"
	"net"
	"sync/atomic"
	"testing"

	"github.com/slidegate/slidegate/cmd/slidegate/internal/server"
	"github.com/slidegate/slidegate/cmd/slidegate/internal/testkit"
)

// strangers connect to a listener from an address and say nothing, and the test waits until as many are held as should be, and all others
// have been sent away: at once, or by those who came later.
func (s *service) strangers(t *testing.T, listener, from string, n, want int) {
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

// TestOneStranger: whoever opens as many connections as there may be from one address keeps nobody else out, at no listener.
func TestOneStranger(t *testing.T) {
	const most = 20
	for name, test := range map[string]struct {
		file string
		per  int
		want int
	}{
		"a quarter unless said": {"trusted_proxies: []\n" + roomy, 0, most / 4},
		"as said":               {"trusted_proxies: [10.0.0.0/8]\n" + roomy, 3, 3},
		"a trusted proxy":       {"trusted_proxies: [127.0.0.2]\n" + roomy, 3, most},
		"this machine":          {roomy, 3, most},
	} {
		t.Run(name, func(t *testing.T) {
			s := start(t, test.file, func(o *server.Options) {
				o.MaxConnections, o.MaxConnectionsPerAddress, o.Tokens = most, test.per, []string{someToken}
				o.Envoy = []string{domainFile(t)}
				before(t, nil)(o)
			})
			for _, listener := range []string{"http", "grpc", "resp", "proxy", "admin"} {
				want := test.want
				if listener == "resp" {
					want = min(want, most/4) // of those who have not said the token, wherever they come from
				}
				s.strangers(t, listener, "127.0.0.2", 2*most, want)
			}
			if test.want == most {
				return
			}
			for listener, err := range s.askAll(t, nil, someToken) {
				if err != nil {
					t.Errorf("%s, somebody else: %v", listener, err)
				}
			}
			if err := s.askHTTP("admin", nil, "/metrics", someToken); err != nil {
				t.Errorf("admin, somebody else: %v", err)
			}
		})
	}
}
