//go:build !linux

package listen

import (
	"errors"
	"net"
	"syscall"
)

// reusePort is a net.ListenConfig.Control function.
func reusePort(_, _ string, _ syscall.RawConn) error {
	return errors.New("sharing a port with another process is supported only on Linux; remove --reuse-port")
}

// acceptQueued returns nothing: the queue can be emptied only on Linux.
func acceptQueued(net.Listener) []net.Conn { return nil }
