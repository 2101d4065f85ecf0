package redistest

import (
	"fmt"
	"net"
	"sync"
	"testing"
)

// busOffset is the distance from a cluster node's port to its port for the other nodes.
const busOffset = 10_000

// usedPorts holds the ports that freePort has returned, so that it does not return one twice before a server listens on it.
var usedPorts = struct {
	sync.Mutex
	ports map[int]bool
}{ports: map[int]bool{}}

// freePort returns a port on which nothing listens, with the cluster's port above it if needed. Another process can
// still take it before the server does; then the server ends immediately, and another port is tried.
func freePort(t testing.TB, bus bool) int {
	t.Helper()
	for range 200 {
		if port, ok := tryPort(t, bus); ok {
			return port
		}
	}
	t.Fatal("redistest: found no free port")
	return 0
}

func tryPort(t testing.TB, bus bool) (port int, ok bool) {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatalf("redistest: no port to listen on: %v", err)
	}
	defer listener.Close()
	port = listener.Addr().(*net.TCPAddr).Port
	usedPorts.Lock()
	defer usedPorts.Unlock()
	if usedPorts.ports[port] || usedPorts.ports[port+busOffset] {
		return 0, false
	}
	if bus {
		if port+busOffset > 65_535 {
			return 0, false
		}
		above, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", port+busOffset))
		if err != nil {
			return 0, false
		}
		above.Close()
		usedPorts.ports[port+busOffset] = true
	}
	usedPorts.ports[port] = true
	return port, true
}
