package server_test

import (
	"net"
	"testing"

	"github.com/slidegate/slidegate/cmd/slidegate/internal/server"
	"github.com/slidegate/slidegate/cmd/slidegate/internal/testkit"
)

// strangers connect to a listener from an address and say nothing. The result is how many were let in.
func (s *service) strangers(t *testing.T, listener, from string, n int) int {
	t.Helper()
	dialer := &net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(from)}}
	for range n {
		conn, err := dialer.Dial("tcp", s.Address(listener))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { conn.Close() })
	}
	var held int64
	testkit.Eventually(t, "all have been let in or sent away", func() bool {
		open, refused := s.Connections(listener)
		held = open
		return open+refused == int64(n)
	})
	return int(held)
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
			})
			listeners := []string{"http", "grpc", "admin"}
			if test.want < most {
				listeners = append(listeners, "resp") // which else makes room by itself: TestGuests
			}
			for _, listener := range listeners {
				if got := s.strangers(t, listener, "127.0.0.2", 2*most); got != test.want {
					t.Errorf("%s holds %d connections of one stranger, want %d", listener, got, test.want)
				}
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
