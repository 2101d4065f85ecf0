package testkit

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"sync"
	"testing"
)

// Ports that FreePort returns: below those that systems choose for outgoing connections, so that no connection takes one before
// a server listens on it.
const (
	firstPort  = 10_000
	endOfPorts = 32_000
)

// usedPorts holds the ports that FreePort has returned, and does not return again.
var usedPorts sync.Map

// FreePort returns a port of the loopback interface, chosen at random, on which nothing listens, nor on any of those above it at
// the given distances.
func FreePort(above ...int) (int, error) {
	for range 1_000 {
		port := firstPort + rand.IntN(endOfPorts-firstPort)
		free := isFree(port)
		for _, distance := range above {
			free = free && isFree(port+distance)
		}
		if free {
			return port, nil
		}
	}
	return 0, errors.New("testkit: found no free port")
}

// FreeAddress returns an address with a port of FreePort.
func FreeAddress(t testing.TB) string {
	t.Helper()
	return fmt.Sprintf("127.0.0.1:%d", Must(FreePort())(t))
}

// isFree reports whether a port is free, and reserves it.
func isFree(port int) bool {
	if port >= endOfPorts {
		return false
	}
	listener, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", port))
	if err != nil {
		return false
	}
	listener.Close()
	_, taken := usedPorts.LoadOrStore(port, true)
	return !taken
}
