package service_test

import (
	"bufio"
	"net"
	"testing"
	"time"

	"github.com/slidegate/slidegate/cmd/slidegate/internal/service"
	"github.com/slidegate/slidegate/cmd/slidegate/internal/testkit"
)

// TestUnauthenticatedClientsKeepOutNoOther: connections to the RESP listener that never send a token, more than the listener holds,
// do not keep out a client that does.
func TestUnauthenticatedClientsKeepOutNoOther(t *testing.T) {
	const token, most = "0123456789abcdef", 60
	s := start(t, "policies: {default: {limits: [1000/1h]}}\n", func(o *service.Options) {
		o.Tokens, o.MaxConnections = []string{token}, most
	})
	dial := func() net.Conn {
		t.Helper()
		conn, err := net.Dial("tcp", s.Address("resp"))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = conn.Close() })
		return conn
	}
	for range 3 {
		for range most {
			dial()
		}
		testkit.Eventually(t, "a client with the token is served", func() bool {
			conn := dial()
			_ = conn.SetDeadline(time.Now().Add(testkit.Patience))
			if _, err := conn.Write([]byte(testkit.Commands("AUTH " + token))); err != nil {
				return false
			}
			line, _ := bufio.NewReader(conn).ReadString('\n')
			return line == "+OK\r\n"
		})
	}
}
